"""Columns and nested fields that the settings `operation`, `order_by` and `time` name.

`_cdc.op` names the field `op` of the column `_cdc`. A column with that whole name, dots included, takes precedence.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from lakeward.adapters.sources.files.form import Form
from lakeward.adapters.sources.messages.message import cell, cells_of, has
from lakeward.adapters.spark.frames.event_frame import SKIPPED, Group, by_object
from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.adapters.spark.frames.source_rows import MALFORMED, OP_TEXT, is_nested
from lakeward.adapters.spark.sql.names import quoted, text
from lakeward.core.dimension import Dimension
from lakeward.core.errors import SchemaConflict
from lakeward.core.schema import Column, Schema

SETTINGS: Final = ("operation", "order_by", "time")
"""The settings that name a column or a field."""

LACKS: Final = {setting: f"_lakeward_lacks_{setting}" for setting in SETTINGS}
NOT_PLAIN: Final = {setting: f"_lakeward_not_plain_{setting}" for setting in SETTINGS}
"""Flags of a JSON object, by setting: the named field is missing, or is an object or a list."""

NEAR_WORD: Final = "_lakeward_near_word"
"""Flags a row whose word for the operation is nearly one that the settings name.

Only case or blanks differ, or it is the same whole number with a fraction of zeros.
"""

_BLANKS: Final = " \t\r\n"
"""Characters that are stripped from words before they are compared; CR is one, because rows may end in CR LF."""

_ZEROS: Final = r"^(-?[0-9]+)[.]0+$"
"""A whole number in a column of floats or decimals."""

FIELD_FLAGS: Final = (*LACKS.values(), *NOT_PLAIN.values(), NEAR_WORD)


def fields_of(options: Form) -> Mapping[str, str]:
    """Return the columns or paths that the settings name, by setting, in the order of `SETTINGS`."""
    operation = None if options.operation is None else options.operation.column
    named = dict(zip(SETTINGS, (operation, options.order_by, options.time), strict=True))
    return {setting: name for setting, name in named.items() if name is not None}


def root_of(name: str) -> str:
    """Return the column that a path of names begins with.

    >>> root_of("_cdc.op")
    '_cdc'
    """
    return name.partition(".")[0]


def find_field(schema: Schema, name: str) -> tuple[str, Column] | None:
    """Return the column or nested field of a name as SQL, with its type; None if the schema has neither."""
    if (named := schema.find(name)) is not None:
        return quoted(name), named
    root, *rest = name.split(".")
    column = schema.find(root)
    for part in rest:
        parts = column.type.parts if column is not None and column.type.name == "struct" else ()
        column = next((field for field in parts if field.name == part), None)
    return None if column is None else (quoted(root, *rest), Column(name, column.type))


def refuse_both(dimension: Dimension, file: str, schema: Schema, name: str) -> None:
    """Raise SchemaConflict if `operation` names both a column of a file and a field in another of its columns."""
    others = Schema(tuple(column for column in schema if column.name != name))
    if schema.find(name) is not None and find_field(others, name) is not None:
        raise SchemaConflict(
            f"{dimension.name}: {file} has a column {name!r}, which `operation` names, and a field of that path",
            found=f"the column {name!r}, and a field in the column {root_of(name)!r}",
            todo="Nothing of this batch was applied; other tables go on. Let the writer of the file call one of "
            "them otherwise, or keep the file back.",
        )


class JsonField(NamedTuple):
    """The field of a JSON object that a setting names, as SQL: its text, and whether the object has it."""

    text: str
    is_there: str

    def flags(self, of: str, setting: str) -> Sequence[str]:
        """Return the flags of the object `of` for a setting, as SQL with their names."""
        return (
            f"{of} IS NOT NULL AND NOT {self.is_there} AS {LACKS[setting]}",
            f"coalesce({is_nested(self.text)}, false) AS {NOT_PLAIN[setting]}",
        )


def json_field(of: str, name: str, called: Mapping[str, Sequence[str]]) -> JsonField:
    """Return a column or field of the object `of`; `called` has the names of each column, old ones included."""
    own = _json_column(of, called.get(name, [name]))
    root, *rest = name.split(".")
    if not rest or name in called:
        return own
    inner = _json_column(of, called.get(root, [root])).text
    *between, last = rest
    for part in between:
        inner = cell(cells_of(inner), part)
    inside = JsonField(cell(cells_of(inner), last), has(cells_of(inner), last))
    return JsonField(f"coalesce({own.text}, {inside.text})", f"({own.is_there} OR {inside.is_there})")


def _json_column(of: str, names: Sequence[str]) -> JsonField:
    texts, presence = (", ".join(cell(of, n) for n in names), " OR ".join(has(of, n) for n in names))
    return JsonField(f"coalesce({texts})", f"({presence})")


def why_ambiguous(names: Sequence[str]) -> str:
    """Return in words that an object has both the old and the new name of a column: its value is ambiguous."""
    return f"the object has both names of a column that is renamed: {', '.join(names)}"


def near_word(words: Collection[str]) -> str:
    """Return the flag `NEAR_WORD`, as SQL with its name: the word is none of `words`, and nearly one of them."""
    own, alike = ", ".join(map(text, words)), ", ".join(text(_bare(word)) for word in words)
    bare = f"regexp_replace(lower(btrim({OP_TEXT}, {text(_BLANKS)})), {text(_ZEROS)}, '$1')"
    is_near = f"{OP_TEXT} NOT IN ({own}) AND {bare} IN ({alike})" if words else "false"
    return f"coalesce({is_near}, false) AS {NEAR_WORD}"


def _bare(word: str) -> str:
    r"""Return a word in the form in which nearly equal words are the same.

    >>> _bare(" D\r"), _bare("1.00"), _bare("1.05")
    ('d', '1', '1.05')
    """
    return re.sub(_ZEROS, r"\1", word.strip(_BLANKS).lower())


def flag_near_words(rows: pa.Table, words: Collection[str]) -> pa.Table:
    """Return rows with the flag `NEAR_WORD`, as `near_word` computes it in SQL.

    Raises SparkNeeded if a row's word and one of `words` are both not ASCII: Python and Java may differ in the
    lower case of such letters.
    """
    alike = {*map(_bare, words)}
    is_plain = all(word.isascii() for word in alike)
    flags: dict[str | None, bool] = {None: False, **dict.fromkeys(words, False)}
    for word in rows.column(OP_TEXT).unique().to_pylist():
        if word not in flags:
            if not (is_plain or word.isascii()):
                raise SparkNeeded("a word for an operation has other letters than those of ASCII")
            flags[word] = _bare(word) in alike
    near = [flags[word] for word in rows.column(OP_TEXT).to_pylist()]
    return rows.append_column(NEAR_WORD, pa.array(near, pa.bool_()))


def count_near_words(groups: Sequence[Group]) -> Mapping[str, int]:
    """Return a warning with the number of rows whose word is nearly one of an operation; empty without any."""
    rows = sum(group.rows for group in groups if NEAR_WORD in group.flags and group.reason is None)
    words = (
        "The word for the operation differs from one that `operation` names in case or blanks alone, or in zeros "
        "behind the point, and counts as "
    )
    return {f"{words}another: name it as well where it means the same.": rows} if rows else {}


def lacks_field(dimension: Dimension, file: str, setting: str, name: str) -> SchemaConflict:
    """Return the error for a file of which no row has the field that a setting names."""
    return SchemaConflict(
        f"{dimension.name}: no row of {file} has {name!r}, which `{setting}` names",
        todo=f"Nothing of this batch was applied; other tables go on. Correct `{setting}` (a field in a column is "
        "named by its path, as `_cdc.op`), or let the writer of the file add it.",
    )


def not_plain(dimension: Dimension, file: str, setting: str, name: str) -> SchemaConflict:
    """Return the error for a file in which the field that a setting names is an object or a list in all rows."""
    return SchemaConflict(
        f"{dimension.name}: {name!r}, which `{setting}` names, is an object or a list in all rows of {file}",
        todo=f"Nothing of this batch was applied; other tables go on. Let `{setting}` name the field in it by its "
        f"path, as `{name}.{'op' if setting == 'operation' else 'ts'}`"
        + ("." if setting == "operation" else f", and declare {root_of(name)} as a struct."),
    )


def refuse_fields(
    dimension: Dimension, named: Mapping[str, str], files: Mapping[int, str], survey: Sequence[Group]
) -> None:
    """Raise SchemaConflict for a file in whose rows the field of a setting is always missing or always nested.

    `named` are the fields by setting, `files` the names of files by their order. Unreadable rows and empty lines do
    not count.
    """
    groups = by_object([g for g in survey if g.reason != SKIPPED and MALFORMED not in g.flags])
    for order, alike in groups.items():
        for setting, name in named.items():
            lacks, nested = LACKS[setting], NOT_PLAIN[setting]
            if setting == "time" and not any(nested in group.flags for group in alike):
                continue  # a row without a time is applied: `count_undated` counts them
            if all(group.flags & {lacks, nested} for group in alike):
                conflict = not_plain if any(nested in group.flags for group in alike) else lacks_field
                raise conflict(dimension, files[order], setting, name)


def count_undated(named: Mapping[str, str], groups: Sequence[Group]) -> Mapping[str, int]:
    """Return a warning with the number of rows in files without the field that `time` names; empty without any."""
    lacks = LACKS["time"]
    files = by_object([g for g in groups if g.reason != SKIPPED and MALFORMED not in g.flags]).values()
    rows = sum(group.rows for alike in files if all(lacks in g.flags for g in alike) for group in alike)
    return {f"No row of its file has {named['time']!r}, which `time` names.": rows} if rows else {}
