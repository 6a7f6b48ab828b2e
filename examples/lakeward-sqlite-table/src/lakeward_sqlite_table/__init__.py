"""A table format for lakeward: tables in a SQLite database, of frames in plain Python."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from lakeward.plugins import Options, Registry, Runtime, hookimpl
from lakeward.plugins.options import validated
from lakeward_sqlite_table.table import TYPES, SqliteTable, SqliteTarget

__all__ = ["TYPES", "SqliteTable", "SqliteTarget"]

LAKEWARD_API = (2, 0)


class SqliteOptions(BaseModel):
    """The keys of [target]."""

    model_config = ConfigDict(extra="forbid")

    file: str = "lake.db"


def build(options: Options, runtime: Runtime) -> SqliteTarget:
    """Build the lake from the options. The first commit creates its database."""
    own = {name: value for name, value in options.items() if name != "tables"}
    settings = validated(SqliteOptions, own, str(runtime.file), within="target")
    return SqliteTarget(runtime.base / settings.file, runtime.now)


@hookimpl
def register(registry: Registry) -> None:
    """Register `sqlite` as a table format."""
    registry.formats.add("sqlite", build)
