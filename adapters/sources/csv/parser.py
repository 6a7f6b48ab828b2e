"""A small CSV reader in plain Python, by the rules of `docs/reference/dms-csv.md`.

Spark reads the data. This reader reads the first kilobytes of a file to find its layout, and is the reference that
tests compare Spark with.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from lakeward.core.events import UNSET, Unset

BOM: Final = "\ufeff"

STRAY_QUOTE: Final = "a quote stands where none may stand"
"""Why a row of the expected number of fields breaks the rules."""

Field: TypeAlias = str | Unset | None
"""A text, UNSET where it was not sent, or None for NULL."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """How CSV is written: delimiter, quote, end of a row, and the texts of NULL and of a cell that was not sent.

    With an empty `quote` nothing is quoted. If `no_sup_text` is None, every cell is sent.
    """

    delimiter: str = ","
    quote: str = '"'
    null_text: str = "NULL"
    no_sup_text: str | None = None
    row_end: str = "\n"


@dataclass(frozen=True, slots=True)
class Record:
    """A row of a file: the line it begins on (from 1), its text, and its fields.

    `fields` is None if the row breaks the rules.
    """

    line: int
    text: str
    fields: tuple[Field, ...] | None


def records(content: str, dialect: Dialect) -> Iterator[Record]:
    """Read the rows of a file's content; if a quote is open at the end, the last row has no fields."""
    lines = content.removeprefix(BOM).split(dialect.row_end)
    if lines and not lines[-1]:
        lines.pop()
    for line, text, is_whole in whole_rows(enumerate(lines, 1), dialect):
        yield Record(line, text, fields(text, dialect) if is_whole else None)


def whole_rows(lines: Iterable[tuple[int, str]], dialect: Dialect) -> Iterator[tuple[int, str, bool]]:
    """Join the numbered lines of each row: a row ends at the first line at which its number of quotes is even.

    Each row has the number of its first line. The last item says whether the row is whole: the last row is not if a
    quote is open at its end.
    """
    start, gathered, is_open = 1, list[str](), False
    for number, line in lines:
        if not gathered:
            start = number
        gathered.append(line)
        is_open ^= bool(dialect.quote) and line.count(dialect.quote) % 2 == 1
        if not is_open:
            yield start, dialect.row_end.join(gathered), True
            gathered = []
    if gathered:
        yield start, dialect.row_end.join(gathered), False


def fields(text: str, dialect: Dialect) -> tuple[Field, ...] | None:
    """Split a row into its fields; return None if it has a quote in a place where none may be.

    A quoted field is a text. An unquoted field is NULL if it equals `null_text`, and UNSET if it equals
    `no_sup_text`.

    >>> fields('1,"a ""b"", c",NULL,"NULL",', Dialect())
    ('1', 'a "b", c', None, 'NULL', '')
    """
    values: list[Field] = []
    rest = text
    while True:
        value, after = _quoted(rest, dialect) if _opens(rest, dialect) else _plain(rest, dialect)
        if after is None:
            return None
        values.append(value)
        if not after:
            return tuple(values)
        rest = after[1:]
        if not rest:
            values.append(_null_or(rest, dialect))
            return tuple(values)


def fields_in(row: str, dialect: Dialect) -> int:
    """Return the number of fields of a row, which may break the rules of quotes.

    >>> fields_in('1,"a, b",c', Dialect())
    3
    """
    mark = re.escape(dialect.quote)
    unquoted = re.sub(f"{mark}[^{mark}]*{mark}", "", row) if dialect.quote else row
    return unquoted.count(dialect.delimiter) + 1


def _opens(rest: str, dialect: Dialect) -> bool:
    return bool(dialect.quote) and rest.startswith(dialect.quote)


def _plain(rest: str, dialect: Dialect) -> tuple[Field, str | None]:
    """Return an unquoted field and the text after it, delimiter included; None for both if a quote is in it."""
    value, delimiter, after = rest.partition(dialect.delimiter)
    if dialect.quote and dialect.quote in value:
        return None, None
    return _null_or(value, dialect), delimiter + after


def _null_or(value: str, dialect: Dialect) -> Field:
    if value == dialect.no_sup_text:
        return UNSET
    return None if value == dialect.null_text else value


def _quoted(rest: str, dialect: Dialect) -> tuple[Field, str | None]:
    """Return a quoted field and the text after it, which is None if the field does not end at a delimiter."""
    parts: list[str] = []
    rest = rest[1:]
    while True:
        part, quote, rest = rest.partition(dialect.quote)
        parts.append(part)
        if not quote:
            return None, None
        if rest.startswith(dialect.quote):
            rest = rest[1:]
            parts.append(dialect.quote)
            continue
        ends = not rest or rest.startswith(dialect.delimiter)
        return "".join(parts), rest if ends else None
