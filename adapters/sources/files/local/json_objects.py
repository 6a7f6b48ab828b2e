"""Rows of JSON lines in plain Python; results are equal to those of `json_lines.frames.json_rows` in SQL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lakeward.adapters.sources.files.local.rows import Columns, Line, Row, strange_names
from lakeward.adapters.sources.files.local.values.documents import NO_OBJECT, Documents, Object, text_of
from lakeward.adapters.sources.files.named_fields import (
    LACKS,
    NOT_PLAIN,
    SETTINGS,
    fields_of,
    find_field,
    root_of,
    why_ambiguous,
)
from lakeward.adapters.sources.files.table_files import TableFiles
from lakeward.adapters.spark.frames.local_casts import SparkNeeded


@dataclass(frozen=True, slots=True)
class LocalObjects:
    """Decoder of the JSON objects of one table.

    `column_names` are the names that each column may have in an object, old ones included. `expected_names` are all
    of these and the name of the operation. `named` are the fields that settings name, by setting. With
    `keeps_absent` a column that an object lacks was not sent.
    """

    documents: Documents
    column_names: Mapping[str, Sequence[str]]
    expected_names: frozenset[str]
    named: Mapping[str, str]
    keeps_absent: bool

    @classmethod
    def of(cls, table: TableFiles, documents: Documents) -> LocalObjects:
        """Return the decoder of the objects of a table."""
        schema, renames = table.dimension.schema, table.dimension.policies.renames
        column_names = {c.name: [c.name, *(old for old, new in renames.items() if new == c.name)] for c in schema}
        named = fields_of(table.options)
        expected_names = {name for names in column_names.values() for name in names}
        operation = named.get("operation")
        if operation is not None and not find_field(schema, operation):
            expected_names |= {operation, root_of(operation)}
        return cls(documents, column_names, frozenset(expected_names), named, table.options.absent == "unset")

    def extra_columns(self) -> Sequence[str]:
        """Return the columns of flags that rows have in addition."""
        settings = [name for name in SETTINGS if name in self.named]
        return [flag for name in settings for flag in (LACKS[name], NOT_PLAIN[name])]

    def row_of(self, line: Line, columns: Columns) -> Row:
        """Return the row of a line."""
        document, problem = self.documents.parse_line(line.text)
        unset = None
        if self.keeps_absent and document is not None:
            unset = [
                n for n in columns.others if all(name not in document for name in self.column_names[n])
            ] or None
        elif self.keeps_absent:
            unset = list(columns.others) or None
        fields = {setting: self._field(document, name) for setting, name in self.named.items()}
        flags: dict[str, bool] = {}
        for setting, (text, is_there) in fields.items():
            flags[LACKS[setting]] = document is not None and not is_there
            flags[NOT_PLAIN[setting]] = text is not None and text.lstrip(" ")[:1] in ("{", "[")
        words = "the line is not a JSON object" if problem in (None, NO_OBJECT) else problem
        return Row(
            line,
            line.text,
            [None if document is None else _first(document, self.column_names[name]) for name in columns.names],
            [None] * len(columns.before_columns),
            unset=unset,
            operation=fields["operation"][0] if "operation" in fields else None,
            broken=words if document is None else self._why_ambiguous(document),
            is_blank=line.text.strip(" \t\r\n") == "",
            strange=strange_names(document, self.expected_names),
            extra=flags,
        )

    def _why_ambiguous(self, document: Object) -> str | None:
        """Return in words that an object has two names of one column; None if it has not."""
        ambiguous = (
            names
            for names in self.column_names.values()
            if len(names) > 1 and sum(n in document for n in names) > 1
        )
        return next(map(why_ambiguous, ambiguous), None)

    def _field(self, document: Object | None, name: str) -> tuple[str | None, bool]:
        """Return the text of a column or nested field, and whether the object has it."""
        values = _column(document, self.column_names.get(name, [name]))
        root, *rest = name.split(".")
        if not rest or name in self.column_names:
            return text_of(values[0]), values[1]
        inner = _column(document, self.column_names.get(root, [root]))[0]
        *parents, last = rest
        for part in parents:
            inner = (self._open(inner) or {}).get(part)
        parent = self._open(inner) or {}
        text = text_of(values[0])
        return text_of(parent.get(last)) if text is None else text, values[1] or last in parent

    def _open(self, value: Any) -> Object | None:
        inner, problem = self.documents.parse_part(value)
        if problem is not None and value.__class__ is str:
            raise SparkNeeded("a text with a field in it is no JSON object")
        return inner


def _column(document: Object | None, names: Sequence[str]) -> tuple[Any, bool]:
    return (None, False) if document is None else (_first(document, names), any(name in document for name in names))


def _first(document: Object, names: Sequence[str]) -> Any:
    return next((value for name in names if (value := document.get(name)) is not None), None)
