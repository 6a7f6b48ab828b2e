"""Conversion of decoded messages to rows: typed cells, and the reasons why cells do not fit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from pyspark.sql import DataFrame

from lakeward.adapters.sources.messages.json.wire_format import Wire, Writing, value_of
from lakeward.adapters.sources.messages.message import BODY, DOUBLE, KEY, LONG, has_match, is_number, is_rounded
from lakeward.adapters.spark.frames.event_frame import LOG
from lakeward.adapters.spark.frames.source_rows import (
    BLANK,
    BROKEN,
    HAS_IMAGE,
    KEY_MISFIT,
    LINE,
    MISFIT,
    NAME,
    OP_TEXT,
    SEQUENCE_TEXT,
    TIME_TEXT,
    TORN,
    TRANSACTION_TEXT,
    VALUE,
    RowSettings,
    before_column,
)
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.casts import misfit
from lakeward.adapters.spark.sql.names import quoted, text
from lakeward.core.schema import Column, Type

NULL = "string(NULL)"
PLAIN = Writing()


@dataclass(frozen=True, slots=True, kw_only=True)
class Decoded:
    """The parts of a decoded message, each as SQL over its frame.

    `cells` are texts by column, `before` the texts before the change, and `has_image` says whether all of these are
    present. `unset` says for each column whether it was not sent. `time` is in microseconds since 1970.
    `unread_time` is the text of a time that cannot be read, after the name of its field. `log` names the source's
    log, as `core.checks.log_steps.LogName` reads it. `broken` says in words why the message cannot be read, and
    `blank` whether it is skipped. `texts` are the JSON texts of the cells, by which rounded numbers are found; they
    are empty if the decoder rounds none. Cells of the columns in `typed` have the type of their column already.
    """

    cells: Mapping[str, str]
    before: Mapping[str, str] = field(default_factory=dict)
    has_image: str = "boolean(NULL)"
    unset: Mapping[str, str] = field(default_factory=dict)
    operation: str = NULL
    time: str = "bigint(NULL)"
    unread_time: str = NULL
    sequence: str = NULL
    log: str = NULL
    transaction: str = NULL
    broken: str = NULL
    blank: str = "false"
    texts: tuple[str, ...] = (BODY, KEY)
    typed: Set[str] = frozenset()


OF_OTHER: Final = "_lakeward_of_other_table"
"""Flags a message that names another table, in its source or by its topic."""

OTHER_TABLE: Final = "_lakeward_other_table"
"""The other table that a message with a row names, as `schema.table`; NULL for any other message."""

NAMELESS: Final = "the message names no table, and those of several tables are in its folder"
"""Why a message that names no table cannot be read if several tables share its folder."""

TOMBSTONE: Final = "_lakeward_tombstone"
"""Flags a message without a value; an empty line is no message."""

ROWS_GONE: Final = "_lakeward_rows_gone"
"""Flags a skipped message which says that the table was truncated or dropped."""

HAS_DELETED: Final = "_lakeward_has_deleted"
"""Flags a flattened message with the field `__deleted`, by which deletes are known."""

OLD_KEY_UNKNOWN: Final = "_lakeward_old_key_unknown"
"""Flags an update whose key and before image lack a column of the table's key, which it may therefore change."""

KEY_HALF: Final = "_lakeward_key_half"
"""Flags half of a key change with headers, if its halves are applied as a delete and an insert."""

UNDECODED: Final = "_lakeward_undecoded"
"""Flags a message that Arrow did not decode (`adapters.sources.messages.envelopes`), so that SQL must decode it."""

MESSAGE_FLAGS: Final = (TOMBSTONE, ROWS_GONE, HAS_DELETED, OLD_KEY_UNKNOWN, KEY_HALF, UNDECODED)
"""Boolean columns of messages."""

LONGEST_NAME: Final = 200


def other_table(schema: str, table: str, has_row: str) -> str:
    """Return the `OTHER_TABLE` of a message flagged `OF_OTHER`, as SQL; a part without a name is `*`."""
    name = f"left(concat(coalesce({schema}, '*'), '.', coalesce({table}, '*')), {LONGEST_NAME})"
    return f"CASE WHEN {OF_OTHER} AND {has_row} THEN {name} END AS {OTHER_TABLE}"


def bare(value: str) -> str:
    """Return a text without the white space of JSON around it, as SQL; lines may end in CR."""
    return f"btrim({value}, ' \\t\\r\\n')"


def to_rows(
    frame: DataFrame,
    settings: RowSettings,
    decoded: Decoded,
    written: Mapping[str, Writing],
    strange: str,
    *more_columns: str,
) -> DataFrame:
    """Return decoded messages as rows, with their cells converted to types; unsent cells are not read.

    `written` says how the cells of columns are written, if they are not plain. `strange` and `beside` are
    additional columns of the rows, as SQL with their names.
    """
    schema = settings.dimension.schema
    cells = {c.name: f"_lakeward_cell_{index}" for index, c in enumerate(schema)}
    before_cells = {c.name: f"_lakeward_was_{index}" for index, c in enumerate(settings.before_columns)}
    key_misfits, others = _misfits(settings, cells, before_cells, written, decoded)
    typed_rows = _with_values(
        _with_texts(frame, decoded, cells, before_cells), settings, decoded, written, cells, before_cells
    )
    return typed_rows.selectExpr(
        *[quoted(name) for name in schema.names],
        *_facts_of_row(decoded),
        f"{_first(key_misfits)} AS {KEY_MISFIT}",
        f"{_first(others)} AS {MISFIT}",
        *(BLANK, VALUE, LINE, NAME),
        f"false AS {TORN}",
        names.UNSET,
        *[before_column(index) for index in range(len(before_cells))],
        strange,
        *more_columns,
    )


def _with_texts(
    frame: DataFrame, decoded: Decoded, cells: Mapping[str, str], before_cells: Mapping[str, str]
) -> DataFrame:
    """Add the texts of cells, and what is known of a message, as columns.

    An expression that is used more than once is a column of its own, or Spark would compute it each time.
    """
    return frame.selectExpr(
        "*",
        f"{_unset(decoded)} AS {names.UNSET}",
        f"{decoded.blank} AS {BLANK}",
        f"{has_match(decoded.texts, LONG)} AS {_HAS_LONG}",
    ).selectExpr(
        "*",
        f"{_HAS_LONG} AND {has_match(decoded.texts, f'{LONG_DOUBLE}|{TINY}')} AS {_HAS_DOUBLE}",
        *[f"{_sent(decoded, name)} AS {cell}" for name, cell in cells.items()],
        *[f"{decoded.before.get(name, NULL)} AS {cell}" for name, cell in before_cells.items()],
    )


def _with_values(
    frame: DataFrame,
    settings: RowSettings,
    decoded: Decoded,
    written: Mapping[str, Writing],
    cells: Mapping[str, str],
    before_cells: Mapping[str, str],
) -> DataFrame:
    """Add the typed values of cells, and those before the change."""
    schema = settings.dimension.schema
    unscaled = [c for c in schema if decoded.texts and _is_base64(c, written)]
    numbers = {c.name: f"_lakeward_is_number_{index}" for index, c in enumerate(unscaled)}
    values = partial(_value, written=written, numbers=numbers, typed=decoded.typed)
    typed = [f"{values(cells[c.name], c)} AS {quoted(c.name)}" for c in schema]
    before_columns = [*enumerate(settings.before_columns)]
    before = [f"{values(before_cells[c.name], c)} AS {before_column(index)}" for index, c in before_columns]
    flags = [f"{is_number(cells[name], name)} AS {flag}" for name, flag in numbers.items()]
    return frame.selectExpr("*", *flags).selectExpr("*", *typed, *before)


def _facts_of_row(decoded: Decoded) -> Sequence[str]:
    """Return operation, time, sequence and the other columns about a row, as SQL with their names."""
    return (
        f"{decoded.operation} AS {OP_TEXT}",
        f"coalesce(string(timestamp_micros({decoded.time})), {decoded.unread_time}) AS {TIME_TEXT}",
        f"CASE WHEN NOT {BLANK} THEN {decoded.sequence} END AS {SEQUENCE_TEXT}",
        f"{decoded.transaction} AS {TRANSACTION_TEXT}",
        f"{decoded.broken} AS {BROKEN}",
        f"{decoded.has_image} AS {HAS_IMAGE}",
        f"{decoded.log} AS {LOG}",
    )


def _misfits(
    settings: RowSettings,
    cells: Mapping[str, str],
    before_cells: Mapping[str, str],
    written: Mapping[str, Writing],
    decoded: Decoded,
) -> tuple[list[str], list[str]]:
    """Return why each cell and each value before the change does not fit, as SQL: of key columns, and of others."""
    of_key: list[str] = []
    others: list[str] = []
    key, texts = settings.dimension.key, decoded.texts
    for column in settings.dimension.schema:
        if column.name in decoded.typed:
            continue
        cell = cells[column.name]
        is_plain = column.type.name == "string" and written.get(column.name, PLAIN).wire is Wire.PLAIN
        misfit_text = (_rounded(cell, column, texts) if texts else NULL) if is_plain else misfit(cell, column)
        if texts and (altered_text := _altered(cell, column, texts)) is not None:
            misfit_text = f"coalesce({misfit_text}, {altered_text})"
        (of_key if column.name in key else others).append(misfit_text)
    for index, column in enumerate(settings.before_columns):
        if column.name in decoded.typed:
            continue
        misfit_text = misfit(before_cells[column.name], column, before_column(index))
        (of_key if column.name in key else others).append(misfit_text)
    return of_key, others


def _rounded(cell: str, column: Column, texts: Sequence[str]) -> str:
    """Return in words that a text is a number which may be rounded, as SQL; NULL if it is not."""
    words = text(f'" may be another number than its line has, of more digits (column {column.name})')
    return f"CASE WHEN {is_rounded(cell, texts, _HAS_LONG)} THEN concat('\"', {cell}, {words}) END"


def _altered(cell: str, column: Column, texts: Sequence[str]) -> str | None:
    """Return in words that a number differs from the one in its line, as SQL; NULL if it does not."""
    is_altered = _is_altered(cell, column.type, texts)
    words = text(f'" is not the number that its line has (column {column.name})')
    return None if is_altered is None else f"CASE WHEN {is_altered} THEN concat('\"', {cell}, {words}) END"


def _is_altered(cell: str, type_: Type, texts: Sequence[str]) -> str | None:
    """Return whether a number differs from the one in its line, as SQL; None for a type without numbers.

    A float differs if it became infinite, or 0 although its line has digits. A decimal or a whole number differs if
    it may have been rounded. A nested column may differ if it has a double and its line such a number.
    """
    if type_.name in ("float", "double"):
        is_zero = f"{cell} IN ('0.0', '-0.0') AND {has_match(texts, TINY)}"
        is_bound = f"{cell} IN ('Infinity', '-Infinity') OR ({is_zero})"
        return f"CASE WHEN {_HAS_LONG} AND ({is_bound}) THEN {is_rounded(cell, texts, _HAS_LONG)} ELSE false END"
    if not _has_exact_numbers(type_):
        return None
    form, is_other = (_DOUBLE_WITHIN, "true") if type_.is_nested else (DOUBLE, is_rounded(cell, texts, _HAS_LONG))
    return f"CASE WHEN {_HAS_DOUBLE} AND {cell} RLIKE {text(form)} THEN {is_other} ELSE false END"


def _has_exact_numbers(type_: Type) -> bool:
    return type_.name in ("int", "bigint", "decimal") or any(_has_exact_numbers(part.type) for part in type_.parts)


_HAS_LONG, _HAS_DOUBLE = "_lakeward_has_long_number", "_lakeward_has_long_double"
"""Flags for messages with a `LONG` number, and for those with a `LONG_DOUBLE` or `TINY` one; few have any."""

TINY: Final = "[1-9][0-9.]*[eE]-[0-9]{3}|[.]0{300}"
"""Matches a text with a number so close to 0 that a double may be 0."""

LONG_DOUBLE: Final = "([0-9][.]?){16}[0-9.]*[eE]|([0-9][.]?){39}"
"""Matches a text with a number that a JSON parser reads as a double, and that has more digits than a double."""

_DOUBLE_WITHIN: Final = "[0-9]E-?[0-9]|[0-9][.]0[^0-9]"
"""Matches the text of an object or a list with a double of few digits, as Spark writes it."""


def _is_base64(column: Column, written: Mapping[str, Writing]) -> bool:
    return column.type.name == "decimal" and written.get(column.name, PLAIN).wire is Wire.UNSCALED


def _value(
    cell: str, column: Column, written: Mapping[str, Writing], numbers: Mapping[str, str], typed: Set[str]
) -> str:
    """Return the typed value of a cell as SQL; a cell that is a JSON number is not read as base64."""
    if column.name in typed:
        return cell
    value = value_of(cell, column.type, written.get(column.name, PLAIN))
    if column.name not in numbers:
        return value
    return f"CASE WHEN {numbers[column.name]} THEN {value_of(cell, column.type, PLAIN)} ELSE {value} END"


def _sent(decoded: Decoded, name: str) -> str:
    cell = decoded.cells.get(name, NULL)
    if name not in decoded.unset:
        return cell
    return f"CASE WHEN NOT coalesce(array_contains({names.UNSET}, {text(name)}), false) THEN {cell} END"


def _unset(decoded: Decoded) -> str:
    """Return the names of the columns that a message did not send, as SQL; NULL if it sent all."""
    if not decoded.unset:
        return "CAST(NULL AS array<string>)"
    marked = ", ".join(f"CASE WHEN {is_unset} THEN {text(name)} END" for name, is_unset in decoded.unset.items())
    return f"nullif(array_compact(array({marked})), CAST(array() AS array<string>))"


def _first(texts: Sequence[str]) -> str:
    return f"coalesce({', '.join([*texts, NULL])})"
