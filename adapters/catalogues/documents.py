"""Tables described by a JSON document. A run also remembers the catalogue in this form."""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from lakeward.adapters.catalogues.types import our_type, written
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.core.schema import Type, parse_type
from lakeward.core.settings.source_catalogue import SourceColumn, SourceTable


class _Described(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class DescribedColumn(_Described):
    """A column. Its type is in the words of the database, or lakeward's own if no database is named."""

    name: str = Field(min_length=1)
    type: str
    comment: str | None = None


class DescribedTable(_Described):
    """A table."""

    schema_: str | None = Field(None, alias="schema", min_length=1)
    table: str = Field(min_length=1)
    columns: list[DescribedColumn] = Field(min_length=1)
    key: list[str] = Field(default_factory=list)
    comment: str | None = None


class Described(_Described):
    """The whole document."""

    tables: list[DescribedTable]


def tables(text: str, database: str | None, schema: str | None, file: str) -> Sequence[SourceTable]:
    """Return the tables of a document; raises ConfigError, with the place, for errors in it."""
    try:
        described = Described.model_validate_json(text)
    except ValidationError as error:
        problems = [
            f"{'.'.join(map(str, item['loc'])) or 'the document'}: {item['msg']}" for item in error.errors()
        ]
        raise ConfigError(
            f"{file} does not describe tables as a catalogue does",
            found="\n".join(problems[:5]),
            todo="docs/reference/catalogue.md shows what it has to look like.",
        ) from error
    return [_table(table, database, schema, file) for table in described.tables]


def _table(table: DescribedTable, database: str | None, schema: str | None, file: str) -> SourceTable:
    table_schema = table.schema_ or schema
    if table_schema is None:
        raise ConfigError(
            f"{file} describes the table {table.table}, and does not say of which schema",
            todo='Give it a "schema", or say it for all by `schema` under [catalogue].',
        )
    names = [column.name for column in table.columns]
    for name in table.key:
        if name not in names:
            raise ConfigError(
                f"{file}: the key of {table.table} names {name!r}, and it has no such column",
                found="its columns are " + ", ".join(names),
            )
    columns = tuple(
        SourceColumn(name=c.name, written=c.type, type=_type(c.type, database), comment=c.comment)
        for c in table.columns
    )
    return SourceTable(
        name=TableName(table_schema, table.table), columns=columns, key=tuple(table.key), comment=table.comment
    )


def _type(text: str, database: str | None) -> Type | None:
    if database is not None:
        return our_type(database, written(text))
    try:
        return parse_type(text)
    except ConfigError:
        return None
