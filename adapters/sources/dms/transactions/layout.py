"""Rows of transaction files (`PreserveTransactions`, `CdcPath`): changes of many tables in the order of commits.

A row is `operation,table_name,database_schema_name,field_value,…`, with the table before its schema
(docs.aws.amazon.com/dms/latest/userguide/CHAP_Target.S3.html). The files are always CSV and never have a header,
because `AddColumnName` does not go with them. Only the row itself shows how many columns it has, and whether the
commit time is one of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from lakeward.adapters.sources.csv.layout import IGNORED, OP, OPERATIONS, TIME, ExpectedLayout, Layout
from lakeward.adapters.sources.csv.parser import Dialect, fields
from lakeward.core.dimension import TableName
from lakeward.core.errors import SchemaConflict, SourceError

COMMIT_TIME: Final = r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}\.\d{6}"
"""The pattern of a commit time in CSV."""

LEAD: Final = (OP, f"{IGNORED}table", f"{IGNORED}schema")
"""The first fields of a row."""

_NO_TEXT: Final = "\0"


def table_of(row: str, dialect: Dialect, configured: Collection[TableName] = ()) -> TableName | None:
    """Return the table that a row names, or None if it names none.

    A text that does not begin with an operation is a row only if its table is configured. Otherwise it is a piece
    of a broken row. A name that equals the text of NULL is a name.

    >>> table_of("I,orders,shop,1,new", Dialect())
    TableName(schema='shop', table='orders')
    >>> table_of("of a text, that was, broken", Dialect()) is None
    True
    """
    row_fields = fields(row, replace(dialect, null_text=_NO_TEXT, no_sup_text=None)) or ()
    texts = [field for field in row_fields[: len(LEAD)] if isinstance(field, str)]
    if len(texts) < len(LEAD) or not (texts[1] and texts[2]):
        return None
    table = TableName(texts[2], texts[1])
    is_known = _lower_case(table) in map(_lower_case, configured)
    return table if texts[0] in OPERATIONS or is_known else None


def match_table(table: TableName, names: Collection[TableName]) -> TableName | None:
    """Return a table as files spell it, or None if they have no such table.

    An exact match wins; otherwise case is ignored. Raises SourceError where several names differ only in case.
    """
    if table in names:
        return table
    similar = sorted(name for name in names if _lower_case(name) == _lower_case(table))
    if len(similar) > 1:
        raise SourceError(
            f"{table}: its name is ambiguous",
            found=f"files of transactions have {' and '.join(map(str, similar))}",
            todo="Write the table's name as they do. Nothing of this batch was applied.",
        )
    return similar[0] if similar else None


def _lower_case(table: TableName) -> tuple[str, str]:
    return table.schema.lower(), table.table.lower()


def folder_key(table: TableName) -> str:
    """Return the hash that represents a table in the name of a folder."""
    qualified = f"{len(table.schema)}:{table.schema}{table.table}"
    return hashlib.md5(qualified.encode(), usedforsecurity=False).hexdigest()


def find_layout(name: str, width: int, expected: ExpectedLayout) -> Layout:
    """Return the columns of a table's rows in a file, by the number of fields.

    If no known order of columns has that number, the present order is returned, and the rows are then found to be
    malformed. Raises SchemaConflict where several orders have it.
    """
    candidates = dict.fromkeys(
        (*LEAD, *columns)
        for order in expected.orders
        for columns in (order, tuple(column for column in order if column != TIME))
        if len(LEAD) + len(columns) == width
    )
    if len(candidates) > 1:
        descriptions = "; then ".join(", ".join(_visible_columns(columns)) for columns in reversed(candidates))
        raise SchemaConflict(
            f"{expected.dimension.name}: the columns of its rows in {name} are ambiguous",
            found=f"they have {width} fields, and of late the source had {descriptions}",
            todo="Nothing of this batch was applied; other tables go on. Declare all columns, as the files that "
            f'wait have them, under [tables."{expected.dimension.name}".columns], until those are applied.',
        )
    return Layout(next(iter(candidates), (*LEAD, *expected.plain)), has_header=False, is_crlf=False)


def _visible_columns(columns: Sequence[str]) -> Sequence[str]:
    return [column for column in columns if not column.startswith("\0")]
