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

    `called` are the names that each column may have in an object, old ones included. `expected_names` are all these
    names and that of the operation. `named` are the fields that settings name, by setting. With `keeps_absent` a
    column that an object lacks was not sent.
    """

    documents: Documents
    called: Mapping[str, Sequence[str]]
    expected_names: frozenset[str]
    named: Mapping[str, str]
    keeps_absent: bool

    @classmethod
    def of(cls, table: TableFiles, documents: Documents) -> LocalObjects:
        """Return the decoder of the objects of a table."""
        schema, renames = table.dimension.schema, table.dimension.policies.renames
        called = {c.name: [c.name, *(old for old, new in renames.items() if new == c.name)] for c in schema}
        named = fields_of(table.options)
        expected_names = {name for names in called.values() for name in names}
        operation = named.get("operation")
        if operation is not None and not find_field(schema, operation):
            expected_names |= {operation, root_of(operation)}
        return cls(documents, called, frozenset(expected_names), named, table.options.absent == "unset")

    def beside(self) -> Sequence[str]:
        """Return the columns of flags that rows have in addition."""
        settings = [name for name in SETTINGS if name in self.named]
        return [flag for name in settings for flag in (LACKS[name], NOT_PLAIN[name])]

    def row_of(self, line: Line, columns: Columns) -> Row:
        """Return the row of a line."""
        of, wrong = self.documents.parse_line(line.text)
        unset = None
        if self.keeps_absent and of is not None:
            unset = [n for n in columns.others if all(name not in of for name in self.called[n])] or None
        elif self.keeps_absent:
            unset = list(columns.others) or None
        fields = {setting: self._field(of, name) for setting, name in self.named.items()}
        flags: dict[str, bool] = {}
        for setting, (text, is_there) in fields.items():
            flags[LACKS[setting]] = of is not None and not is_there
            flags[NOT_PLAIN[setting]] = text is not None and text.lstrip(" ")[:1] in ("{", "[")
        words = "the line is not a JSON object" if wrong in (None, NO_OBJECT) else wrong
        return Row(
            line,
            line.text,
            [None if of is None else _first(of, self.called[name]) for name in columns.names],
            [None] * len(columns.before_columns),
            unset=unset,
            operation=fields["operation"][0] if "operation" in fields else None,
            broken=words if of is None else self._why_ambiguous(of),
            is_blank=line.text.strip(" \t\r\n") == "",
            strange=strange_names(of, self.expected_names),
            extra=flags,
        )

    def _why_ambiguous(self, of: Object) -> str | None:
        """Return in words that an object has two names of one column; None if it has not."""
        ambiguous = (names for names in self.called.values() if len(names) > 1 and sum(n in of for n in names) > 1)
        return next(map(why_ambiguous, ambiguous), None)

    def _field(self, of: Object | None, name: str) -> tuple[str | None, bool]:
        """Return the text of a column or nested field, and whether the object has it."""
        own = _column(of, self.called.get(name, [name]))
        root, *rest = name.split(".")
        if not rest or name in self.called:
            return text_of(own[0]), own[1]
        inner = _column(of, self.called.get(root, [root]))[0]
        *between, last = rest
        for part in between:
            inner = (self._opened(inner) or {}).get(part)
        inside = self._opened(inner) or {}
        text = text_of(own[0])
        return text_of(inside.get(last)) if text is None else text, own[1] or last in inside

    def _opened(self, value: Any) -> Object | None:
        inner, wrong = self.documents.parse_part(value)
        if wrong is not None and value.__class__ is str:
            raise SparkNeeded("a text with a field in it is no JSON object")
        return inner


def _column(of: Object | None, names: Sequence[str]) -> tuple[Any, bool]:
    return (None, False) if of is None else (_first(of, names), any(name in of for name in names))


def _first(of: Object, names: Sequence[str]) -> Any:
    return next((value for name in names if (value := of.get(name)) is not None), None)
