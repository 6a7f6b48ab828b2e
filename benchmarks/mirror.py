"""Our way: what `lakeward run --once` does, in a process that is not ended in between."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

import pyarrow as pa
import structlog
from feed import KEY, TABLE, TIME, TYPES
from naive import checksum

from lakeward.adapters.formats.shared.side_tables.side_table import CHANGES
from lakeward.core.dimension import TableName
from lakeward.core.pipeline.job import Report
from lakeward.entrypoints.container import Container
from lakeward.entrypoints.runtime.pipeline_run import run_tables, worker_pool
from lakeward.entrypoints.runtime.stop_signal import Stop
from lakeward.entrypoints.runtime.table_run import TableRun
from lakeward.entrypoints.settings.configuration import FILE, load
from lakeward.entrypoints.startup.process_memory import manage_memory


def write_settings(
    folder: Path,
    landing: Path,
    spark: Mapping[str, str],
    lateness: str = "24h",
    not_sent: str | None = None,
    tables: Sequence[TableName] = (TABLE,),
    parallel: int | None = None,
    kind: str = "iceberg",
    write_mode: str | None = None,
    mode: str | None = None,
    small_batch: int | None = None,
) -> Path:
    """Write the settings of a pipeline that keeps tables; everything else is as lakeward has it."""
    lines = [
        "[pipeline]",
        'name = "benchmark"',
        *([] if parallel is None else [f"parallel = {parallel}"]),
        "[source]",
        'kind = "dms"',
        f'path = "{landing}"',
        f'timestamp_column = "{TIME}"',
        *([] if not_sent is None else [f'no_sup_value = "{not_sent}"']),
        "[target]",
        f'kind = "{kind}"',
        'warehouse = "lake/"',
        *([] if small_batch is None else ["[spark]", f"small_batch = {small_batch}"]),
        "[spark.settings]",
        *[f'"{name}" = "{value}"' for name, value in spark.items()],
    ]
    for table in tables:
        lines += [
            f'[tables."{table}"]',
            f'key = ["{KEY}"]',
            f'lateness = "{lateness}"',
            *([] if write_mode is None else [f'write_mode = "{write_mode}"']),
            *([] if mode is None else [f'mode = "{mode}"']),
            f'[tables."{table}".columns]',
            *[f'{name} = "{type_}"' for name, type_ in TYPES.items()],
        ]
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / FILE
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


_TARGET_AND_TABLE: Final = """
[target]
kind = "iceberg"
warehouse = "lake/"
[spark.settings]
{spark}
[tables."{table}"]
key = ["{key}"]
{of_table}
[tables."{table}".columns]
{columns}
"""


def fill_settings(
    folder: Path, pipeline_and_source: str, spark: Mapping[str, str], *, of_table: str, **values: object
) -> Path:
    """Write settings of the same table with another source; `values` are what this has a place for."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / FILE
    file.write_text(
        (pipeline_and_source + _TARGET_AND_TABLE).format(
            of_table=of_table,
            spark="\n".join(f'"{name}" = "{value}"' for name, value in spark.items()),
            table=TABLE,
            key=KEY,
            columns="\n".join(f'{name} = "{type_}"' for name, type_ in TYPES.items()),
            **values,
        ),
        encoding="utf-8",
    )
    return file


class Mirror:
    """The table as lakeward keeps it. Spark is started, as the naive job's is, before anything is measured."""

    def __init__(self, settings: Path) -> None:
        manage_memory()
        structlog.configure(wrapper_class=structlog.make_filtering_bound_logger("error"))
        self.container = Container(configured=load(settings))
        self.worker_pool = worker_pool(self.container)
        self.container.source(), self.container.target()  # what they need Spark is started with
        self.container.spark()()

    def load(self, files: Sequence[Path]) -> float:
        """Apply the full load, as anything else that waits; return the seconds it took."""
        return self.apply(files)

    def apply(self, files: Sequence[Path]) -> float:
        """Apply what waits in the landing folder, which must be these files; return the seconds it took."""
        began = time.perf_counter()
        (run,) = run_tables(self.container, [TABLE], Unobserved(), Stop(print), self.worker_pool)
        seconds = time.perf_counter() - began
        if run.error is not None:
            raise run.error
        applied = [found.object.name for report in run.reports for found in report.plan.facts.objects]
        if applied != [file.name for file in files]:
            raise AssertionError(f"applied {applied}")
        return seconds

    def run(self) -> float:
        """Apply what waits for all tables; return the seconds it took."""
        began = time.perf_counter()
        tables = [*self.container.configured().tables]
        for run in run_tables(self.container, tables, Unobserved(), Stop(print), self.worker_pool):
            if run.error is not None:
                raise run.error
        return time.perf_counter() - began

    def cpu(self) -> float:
        """Return the seconds of CPU that the process and its JVM took until now (Linux only)."""
        return cpu()

    def remembered(self) -> int:
        """Return how many entries the companion of the table has."""
        table = self.container.target().catalog.load(TABLE, CHANGES)
        return int(table.current_snapshot().summary["total-records"])

    def checksum(self) -> tuple[int, int]:
        """Return the number of rows, and a number that any other content would change."""
        return checksum(self.container.spark()().table(f"lake.{TABLE.schema}.{TABLE.table}"))

    def rows(self) -> pa.Table:
        """Return the rows as PyIceberg reads them."""
        table = self.container.target().catalog.load(TABLE)
        return table.scan(selected_fields=tuple(TYPES)).to_arrow()


class Unobserved:
    def step(self, table: TableName, name: str) -> None: ...
    def batch(self, table: TableName, report: Report) -> None: ...
    def done(self, run: TableRun) -> None: ...


def cpu() -> float:
    """Return the seconds of CPU that this process and those that it started took until now (Linux only)."""
    return sum(map(_ticks, [os.getpid(), *below(os.getpid())])) / os.sysconf("SC_CLK_TCK")


def below(process: int) -> Iterator[int]:
    """Return the processes that a process started, and those that they did."""
    tasks: list[Path] = []
    with suppress(FileNotFoundError, ProcessLookupError):
        tasks = [*Path(f"/proc/{process}/task").iterdir()]
    for task in tasks:
        for child in map(int, read(task / "children").split()):
            yield child
            yield from below(child)


def _ticks(process: int) -> int:
    """Return the ticks that a process took; its name, which stands before them in brackets, may have spaces."""
    fields = read(Path(f"/proc/{process}/stat")).rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12]) if fields else 0


def read(file: Path) -> str:
    """Return what a file of /proc says; nothing where its process or thread has ended meanwhile."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return file.read_text()
    return ""
