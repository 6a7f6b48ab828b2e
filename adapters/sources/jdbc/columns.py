"""Columns of a table as they are read: in the types of its database, or as the settings declare them."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

from lakeward.core.dimension import Dimension
from lakeward.core.errors import ConfigError, SchemaConflict
from lakeward.core.schema import Column, Type
from lakeward.core.settings.source_catalogue import SourceColumn, SourceTable

_OTHER_IN_MESSAGES: Final = re.compile(
    r"time( .*)?|timetz|interval( .*)?|bit( varying)?|varbit|money|hstore|point|line|lseg|box|path|polygon|circle"
    r"|sql_variant|hierarchyid|u?rowid|_.*|.*\[.*",
)
"""Types that are read as texts, and that messages send as numbers, bytes, lists or objects.

`_` begins the name of an array.
"""
_SIZE: Final = re.compile(r" *\([^()]*\)")


def drop_columns(dimension: Dimension, table: SourceTable, names: Collection[str]) -> SourceTable:
    """Return a table without the columns `names`; raises ConfigError for a key column or an unknown name."""
    for name in names:
        if name not in table.names or name in dimension.key:
            raise ConfigError(
                f"{dimension.name}: {name} cannot be left out",
                found="it is a column of the key" if name in dimension.key else "there is no such column",
                todo="Correct `without`: it names columns as the database writes them.",
            )
    return replace(table, columns=tuple(column for column in table.columns if column.name not in names))


def columns_of(dimension: Dimension, table: SourceTable) -> tuple[Column, ...]:
    """Return the columns of a table, in order, with the types in which they are read.

    That is the type for the database's type (docs/reference/catalogue.md#types), or `string` where the settings
    declare it. Raises SchemaConflict for a column without a type that nothing declares, and ConfigError for one
    that is declared with a type in which it cannot be read.
    """
    return tuple(Column(one.name, _type_of(dimension, one)) for one in table.columns)


def refuse_other_forms(
    dimension: Dimension, table: SourceTable, columns: Sequence[Column], *, is_mysql: bool = False
) -> None:
    """Raise ConfigError for columns whose values have another form in messages than in the database.

    MySQL writes JSON with blanks, and its binlog has none.
    """
    text = Type("string")
    differing = [
        f"{source.name} ({source.written})"
        for source, column in zip(table.columns, columns, strict=True)
        if column.type == text
        and (source.type != text or _differs_in_messages(_SIZE.sub("", source.written.lower()), is_mysql=is_mysql))
    ]
    if differing:
        raise ConfigError(
            f"{dimension.name}: values of a column would have two forms",
            found="read as texts of the database, and sent otherwise: " + ", ".join(differing),
            todo="Nothing was read. Leave such columns out on both sides: `without` under "
            f'[tables."{dimension.name}".source], `left_out` under its catalogue where there is one, and '
            "`column.exclude.list` at the connector. A number or a time must not be declared as string.",
        )


def _differs_in_messages(written: str, *, is_mysql: bool) -> bool:
    return _OTHER_IN_MESSAGES.fullmatch(written) is not None or (is_mysql and written == "json")


def _type_of(dimension: Dimension, column: SourceColumn) -> Type:
    declared_column = dimension.schema.find(column.name)
    declared = None if declared_column is None else declared_column.type
    if declared == Type("string"):
        return declared
    if column.type is not None:
        return column.type
    if declared is None:
        raise SchemaConflict(
            f"{dimension.name}: the column {column.name} has no type here",
            found=f"the database calls it {column.written}",
            todo=f'Nothing was read. Declare it under [tables."{dimension.name}".columns]: as "string", which '
            "takes any value as a text, or if it is a number without bounds as a decimal "
            "(docs/reference/catalogue.md).",
        )
    if declared.name != "decimal":
        raise ConfigError(
            f"{dimension.name}: the column {column.name} cannot be read as {declared.with_article}",
            found=f"the database calls it {column.written}",
            todo='Declare it as "string", or where it is a number as a decimal.',
        )
    return declared
