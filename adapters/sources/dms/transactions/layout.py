"""Files of transactions (`PreserveTransactions`, `CdcPath`): changes of many tables in the order of their commits.

Their rows are `operation,table_name,database_schema_name,field_value,…`, the table before its
schema, as docs.aws.amazon.com/dms/latest/userguide/CHAP_Target.S3.html has it. They are always
CSV and never have a header: `AddColumnName` does not go with them. Nothing says how wide a row of
a table is, or whether the commit time is in it, but the row.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from lakeward.adapters.sources.csv.layout import IGNORED, OP, OPERATIONS, TIME, Expected, Layout
from lakeward.adapters.sources.csv.parser import Dialect, fields
from lakeward.core.dimension import TableName
from lakeward.core.errors import SchemaConflict, SourceError

COMMIT_TIME: Final = r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}\.\d{6}"
"""How DMS writes the commit time of a change into CSV, as a pattern."""

LEAD: Final = (OP, f"{IGNORED}table", f"{IGNORED}schema")
"""What a row begins with."""

_NO_TEXT: Final = "\0"


def table_of(row: str, dialect: Dialect, configured: Collection[TableName] = ()) -> TableName | None:
    """Return the table that a row says it is of, or None where it says none.

    What begins with no operation is a row only where its table is configured: else it is a
    piece of one. That a name is the text of NULL has no meaning.

    >>> table_of("I,orders,shop,1,new", Dialect())
    TableName(schema='shop', table='orders')
    >>> table_of("of a text, that was, broken", Dialect()) is None
    True
    """
    found = fields(row, replace(dialect, null_text=_NO_TEXT, no_sup_text=None)) or ()
    texts = [field for field in found[: len(LEAD)] if isinstance(field, str)]
    if len(texts) < len(LEAD) or not (texts[1] and texts[2]):
        return None
    named = TableName(texts[2], texts[1])
    is_known = _plain(named) in map(_plain, configured)
    return named if texts[0] in OPERATIONS or is_known else None


def spelled(table: TableName, there: Collection[TableName]) -> TableName | None:
    """Return a table as files spell it, or None where it is not there.

    Names are compared without case where none is exactly that. Raises SourceError where two are spelled like it.
    """
    if table in there:
        return table
    alike = sorted(name for name in there if _plain(name) == _plain(table))
    if len(alike) > 1:
        raise SourceError(
            f"{table}: which of these tables is meant cannot be told",
            found=f"files of transactions have {' and '.join(map(str, alike))}",
            todo="Write the table's name as they do. Nothing of this batch was applied.",
        )
    return alike[0] if alike else None


def _plain(table: TableName) -> tuple[str, str]:
    return table.schema.lower(), table.table.lower()


def key_of(table: TableName) -> str:
    """Return what stands for a table in the name of a folder."""
    named = f"{len(table.schema)}:{table.schema}{table.table}"
    return hashlib.md5(named.encode(), usedforsecurity=False).hexdigest()


def find_layout(name: str, width: int, expected: Expected) -> Layout:
    """Return the columns of a table's rows in a file, by how many fields they have.

    Where no order of the columns has so many, it is the one of now: the rows then say what is
    wrong with them. Raises SchemaConflict where two orders have that width.
    """
    found = dict.fromkeys(
        (*LEAD, *columns)
        for order in expected.orders
        for columns in (order, tuple(column for column in order if column != TIME))
        if len(LEAD) + len(columns) == width
    )
    if len(found) > 1:
        shown = "; then ".join(", ".join(_shown(columns)) for columns in reversed(found))
        raise SchemaConflict(
            f"{expected.dimension.name}: which columns its rows in {name} have cannot be told",
            found=f"they have {width} fields, and of late the source had {shown}",
            todo="Nothing of this batch was applied; other tables go on. Declare all columns, as the files that "
            f'wait have them, under [tables."{expected.dimension.name}".columns], until those are applied.',
        )
    return Layout(next(iter(found), (*LEAD, *expected.plain)), has_header=False, is_crlf=False)


def _shown(columns: Sequence[str]) -> Sequence[str]:
    return [column for column in columns if not column.startswith("\0")]
