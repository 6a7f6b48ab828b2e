"""Our way: what `lakeward run --once` does, without the start of the process."""

from __future__ import annotations

import time as clock
from collections.abc import Mapping
from pathlib import Path

from feed import KEY, TABLE, TIME, TYPES

from lakeward.core.dimension import TableName
from lakeward.core.pipeline import Report
from lakeward.entrypoints.container import Container
from lakeward.entrypoints.run import Stop, TableRun, run_tables
from lakeward.entrypoints.settings import load as load_settings


def write_settings(
    folder: Path,
    landing: Path,
    spark: str,
    types: Mapping[str, str] = TYPES,
    time: str = f'timestamp_column = "{TIME}"',
) -> Path:
    """Write the settings of a pipeline that mirrors a table of these columns; all else is the default."""
    columns = "\n".join(f'{name} = "{type_}"' for name, type_ in types.items())
    file = folder / "lakeward.toml"
    file.write_text(
        f"""
[pipeline]
name = "bench"
[source]
kind = "dms"
path = "{landing}"
{time}
[target]
kind = "iceberg"
warehouse = "lake/"
[spark]
{spark}
[tables."{TABLE}"]
key = ["{KEY}"]
[tables."{TABLE}".columns]
{columns}
""",
        encoding="utf-8",
    )
    return file


class Mirror:
    """The table as lakeward keeps it, in one long-lived Spark."""

    def __init__(self, settings: Path) -> None:
        self.container = Container(configured=load_settings(settings))

    def apply(self) -> float:
        """Apply what waits in the landing folder; return the seconds it took."""
        began = clock.perf_counter()
        (run,) = run_tables(self.container, [TABLE], Unobserved(), Stop(print))
        if run.error is not None:
            raise run.error
        return clock.perf_counter() - began


class Unobserved:
    """Nobody looks on."""

    def step(self, table: TableName, name: str) -> None: ...
    def batch(self, table: TableName, report: Report) -> None: ...
    def done(self, run: TableRun) -> None: ...
