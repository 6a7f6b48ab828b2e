"""The columns of a table as they are read: in the types of its database, or as the settings declare them."""

from __future__ import annotations

from lakeward.core.catalogue import SourceColumn, SourceTable
from lakeward.core.dimension import Dimension
from lakeward.core.errors import ConfigError, SchemaConflict
from lakeward.core.schema import Column, Type


def columns_of(dimension: Dimension, table: SourceTable) -> tuple[Column, ...]:
    """Return the columns of a table in order, each in the type in which it is read.

    That is the one that the database's types are given (docs/catalogue.md#types), unless the settings declare the
    column as `string`. Raises SchemaConflict for a column without a type that nothing declares, and ConfigError for
    one that is declared as what it cannot be read as.
    """
    return tuple(Column(one.name, _type_of(dimension, one)) for one in table.columns)


def _type_of(dimension: Dimension, column: SourceColumn) -> Type:
    found = dimension.schema.find(column.name)
    declared = None if found is None else found.type
    if declared == Type("string"):
        return declared
    if column.type is not None:
        return column.type
    if declared is None:
        raise SchemaConflict(
            f"{dimension.name}: the column {column.name} has no type here",
            found=f"the database calls it {column.written}",
            todo=f'Nothing was read. Declare it under [tables."{dimension.name}".columns]: as "string", which '
            "takes any value as a text, or if it is a number without bounds as a decimal (docs/catalogue.md).",
        )
    if declared.name != "decimal":
        raise ConfigError(
            f"{dimension.name}: the column {column.name} cannot be read as {declared.with_article}",
            found=f"the database calls it {column.written}",
            todo='Declare it as "string", or where it is a number as a decimal.',
        )
    return declared
