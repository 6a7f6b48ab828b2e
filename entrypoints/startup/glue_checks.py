"""Checks of [registration] in Glue that send no request to AWS: the place and the columns of the tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from lakeward.adapters.aws.s3.access import is_url
from lakeward.adapters.registrations.glue import GlueOptions
from lakeward.adapters.registrations.glue.lake_formation import AccessOptions, TableAccess
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.core.text.suggestions import nearest
from lakeward.entrypoints.settings.configuration import Configuration

OWN_PREFIX = "_"
"""The prefix of columns that lakeward and the table formats add; the settings declare none of them."""


def check_glue(configured: Configuration, lake: Any, *, asks: bool) -> None:
    """Raise ConfigError if Glue would refuse a table after its first commit. Other kinds are not checked.

    Glue refuses tables outside of S3, and grants and tags of columns that the table does not have. The columns are
    those that are declared; with `asks`, also those of tables that exist.
    """
    settings = configured.settings.registration
    if settings is None or settings.kind != "glue":
        return
    _check_warehouse(configured)
    access = GlueOptions(**(settings.model_extra or {})).lake_formation
    if access is not None:
        for table, columns in _columns(configured, lake, asks=asks).items():
            _check_columns(access, ".".join(lake.identify(table)), columns)


def _check_warehouse(configured: Configuration) -> None:
    warehouse = configured.settings.target.get("warehouse")
    if isinstance(warehouse, str) and not is_url(warehouse) and configured.settings.target["kind"] != "iceberg":
        raise ConfigError(
            f"{configured.file}: tables that are not in S3 cannot be registered in Glue",
            found=f"`warehouse` under [target] is {warehouse!r}",
            todo="Name a `warehouse` in S3, or leave [registration] out.",
        )


def _columns(configured: Configuration, lake: Any, *, asks: bool) -> Mapping[TableName, Sequence[str]]:
    """Return the columns of each table, as far as they are known."""
    columns = {name: [*schema.names] for name, schema in configured.declared().items()}
    for name in (*configured.tables, *configured.joined) if asks else ():
        description = None if name in configured.refused else lake.describe(name)
        if description is not None:
            columns[name] = [*columns.get(name, ()), *(column.name for column in description.columns)]
    return columns


def _check_columns(access: AccessOptions, table: str, columns: Sequence[str]) -> None:
    """Raise ConfigError if a grant or a tag names a column that the table does not have."""
    known_names = {name.lower() for name in columns}
    for name in _named_columns(access, access.tables.get(table, TableAccess())):
        if name.lower() not in known_names and not name.startswith(OWN_PREFIX):
            raise ConfigError(
                f"access to {table} in Lake Formation: the table has no column {name!r}",
                found="the columns are " + ", ".join(dict.fromkeys(columns)),
                todo=nearest(name, columns) or "Correct it under [registration.lake_formation].",
            )


def _named_columns(access: AccessOptions, own: TableAccess) -> Iterator[str]:
    """Yield the columns that the grants of a table, its own and those of all tables, and its tags name."""
    yield from own.column_tags
    for grant in (*access.grants, *own.grants):
        yield from (*(grant.columns or ()), *(grant.all_but or ()))
