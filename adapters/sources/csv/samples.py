"""The first rows of CSV files that are not configured yet: their delimiter, header and cells."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Final

from lakeward.adapters.sources.csv.header import cell_name
from lakeward.adapters.sources.csv.parser import Dialect, Field, records
from lakeward.core.settings.proposals import proposed_type

DELIMITERS: Final = (",", ";", "\t", "|")

_NAME: Final = re.compile(r"[^\W\d][\w $#.-]*")

Row = Sequence[Field]


@dataclass(frozen=True, slots=True)
class Sample:
    """The first rows of a file. `header` has the names of its first line if that is a header, else it is empty."""

    is_load: bool
    rows: Sequence[Row]
    header: Sequence[str] = ()


def delimiter_of(heads: Sequence[str]) -> str:
    r"""Return the delimiter that gives the most columns, with the same number of columns in each row.

    >>> delimiter_of(["1;a,b\n2;c\n"])
    ';'
    """

    def columns(delimiter: str) -> int:
        widths = []
        for head in heads:
            widths_of_head = {len(row) for row in rows_of(head, Dialect(delimiter))}
            widths.append(widths_of_head.pop() if len(widths_of_head) == 1 else 1)
        return min(widths, default=1)

    return max(DELIMITERS, key=columns)


def rows_of(head: str, dialect: Dialect) -> list[Row]:
    """Return the rows in the beginning of a file that break no rule, without carriage returns at their ends."""
    rows = [record.fields for record in records(head, dialect) if record.text.strip("\r")]
    return [tuple(_without_cr(field) for field in row) for row in rows if row is not None]


def _without_cr(field: Field) -> Field:
    return field.removesuffix("\r") if isinstance(field, str) else field


def split_headers(samples: Sequence[Sample], first_names: Collection[str] = ()) -> list[Sample]:
    """Return samples of one table with the first row as header, if all files begin with a header.

    First rows are headers if all of them are lists of names, and one of these holds: the rows have most names in
    common; a first field is one of `first_names` (lower case); a column below has values of another type than text.
    """
    firsts = [sample.rows[0] for sample in samples if sample.rows]
    if not firsts or not all(_may_be_header(row) for row in firsts):
        return [*samples]
    has_first_name = any(str(row[0]).lower() in first_names for row in firsts)
    common = set.intersection(*[{cell_name(name).lower() for name in row} for row in firsts])
    repeats = len(firsts) > 1 and len(common) > max(map(len, firsts)) / 2
    if not (has_first_name or repeats or any(_differs(sample.rows) for sample in samples if sample.rows)):
        return [*samples]
    return [
        replace(sample, header=[cell_name(name) for name in sample.rows[0]], rows=sample.rows[1:])
        if sample.rows
        else sample
        for sample in samples
    ]


def _may_be_header(row: Row) -> bool:
    names = [name for name in map(cell_name, row) if _NAME.fullmatch(name)]
    return len({name.lower() for name in names}) == len(row)


def _differs(rows: Sequence[Row]) -> bool:
    """Return whether a column has values of another type than text below the first row."""
    columns = list(zip(*[row for row in rows[1:] if len(row) == len(rows[0])], strict=True))
    return any(str(proposed_type(texts(column))) != "string" for column in columns)


def texts(column: Sequence[Field]) -> list[str | None]:
    """Return the cells of a column as texts; None for NULL and for a cell that was not sent."""
    return [field if isinstance(field, str) else None for field in column]


def cells_of(sample: Sample, name: str, columns: Sequence[str]) -> list[str | None]:
    """Return the cells of the column `name`, found by the file's header, or by `columns` if it has none."""
    names = sample.header or columns
    if name not in names:
        return []
    place = list(names).index(name)
    return texts([row[place] for row in sample.rows if len(row) == len(names)])
