"""The source `dms`: what AWS DMS writes, read exactly."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from lakeward.adapters.spark.session.java import check_spark
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.core.ports import Source, SourceInventory, SourceProbe, Statistics, UnroutedRows
from lakeward.plugins import Options, Registry, Runtime, hookimpl
from lakeward.plugins.options import validated

STAGED: Final = "staged"
"""Below the folder `state`: what files of transactions hold, and the rows that tables wait for."""


def build(options: Options, runtime: Runtime) -> Source[Any]:
    """Make the source from the table [source] and what the tables say of themselves."""
    check_spark()
    from lakeward.adapters.sources.dms.source import DmsSource  # noqa: PLC0415  # Spark is imported when it is needed

    settings, folder = _opened(options, runtime)
    shared = None if settings.cdc_path is None else _shared(settings, folder, runtime, options["formats"])
    return DmsSource(
        settings,
        folder,
        runtime.spark,
        options["formats"],
        now=runtime.now,
        shared=shared,
        small_batch=runtime.small_batch,
    )


def _shared(settings: Any, folder: Any, runtime: Runtime, tables: Collection[TableName]) -> Any:
    from lakeward.adapters.sources.dms.transactions.shared_files import SharedFiles  # noqa: PLC0415  # Spark is imported when it is needed
    from lakeward.adapters.sources.dms.transactions.staged_tables import Staged  # noqa: PLC0415

    staged, most = Staged(runtime.state / STAGED, _rows_in_bucket(settings, runtime)), settings.max_files
    return SharedFiles(folder, staged, runtime.spark, settings.dialect, tuple(tables), runtime.now, most)


def _rows_in_bucket(settings: Any, runtime: Runtime) -> Any:
    """Return the places of rows in a bucket; None where they lie beside their index."""
    from lakeward.adapters.sources.dms.transactions.staged_rows import BucketRows  # noqa: PLC0415
    from lakeward.adapters.sources.staging.prefix_factory import open_staging  # noqa: PLC0415

    prefix = open_staging(settings.staging, runtime, "dms")
    return None if prefix is None else BucketRows(prefix)


def build_inventory(options: Options, runtime: Runtime) -> SourceInventory:
    """Look at the landing folder, without Spark."""
    from lakeward.adapters.sources.dms.inventory import DmsSourceInventory  # noqa: PLC0415
    from lakeward.adapters.sources.dms.transactions.staged_tables import Staged  # noqa: PLC0415

    settings, folder = _opened(options, runtime)
    staged = None if settings.cdc_path is None else Staged(runtime.state / STAGED)
    return DmsSourceInventory(settings, folder, staged)


def build_strays(options: Options, runtime: Runtime) -> UnroutedRows:
    """Look at the rows of files of transactions that are of no table, without Spark."""
    from lakeward.adapters.sources.dms.transactions.staged_tables import Staged  # noqa: PLC0415

    _opened(options, runtime)
    return Staged(runtime.state / STAGED)


def build_probe(options: Options, runtime: Runtime) -> SourceProbe:
    """Look at a folder that nobody configured, without Spark."""
    from lakeward.adapters.sources.dms.paths.file_names import PLACES  # noqa: PLC0415
    from lakeward.adapters.sources.dms.probe import DmsSourceProbe  # noqa: PLC0415
    from lakeward.adapters.sources.landing.folder_factory import open_folder  # noqa: PLC0415

    return DmsSourceProbe(open_folder(runtime, str(options["path"]), None, PLACES))


def build_statistics(options: Options, runtime: Runtime) -> Statistics:
    """Make the statistics of a task from files; they are not read yet."""
    from lakeward.adapters.sources.dms.statistics import StatisticsFile, StatisticsOptions  # noqa: PLC0415

    settings = validated(StatisticsOptions, options, str(runtime.file), within="statistics")
    return StatisticsFile(runtime.base / settings.path)


def _opened(options: Options, runtime: Runtime) -> tuple[Any, Any]:
    """Return the validated options and the landing folder."""
    from lakeward.adapters.sources.dms import options as model  # noqa: PLC0415  # pydantic, for who uses the source
    from lakeward.adapters.sources.landing.folder_factory import open_folder  # noqa: PLC0415
    from lakeward.adapters.sources.landing.places import Places  # noqa: PLC0415

    own = {name: value for name, value in options.items() if name not in ("formats", "tables")}
    settings = validated(model.DmsOptions, own, str(runtime.file), within="source")
    said: Mapping[TableName, Mapping[str, Any]] = options.get("tables", {})
    places = {
        table: model.place(
            settings,
            validated(model.DmsTableOptions, values, str(runtime.file), within=f'tables."{table}".source'),
        )
        for table, values in said.items()
    }
    _refuse_shared(places)
    archive = settings.archive if settings.landing == "archived" else None
    return settings, open_folder(runtime, settings.path, archive, Places(model.place(settings), places))


def _refuse_shared(places: Mapping[TableName, Any]) -> None:
    """Refuse a folder that two tables would read."""
    from lakeward.adapters.sources.landing.places import below  # noqa: PLC0415

    folders = [
        (below(part.folder.lower()), table)
        for table, place in places.items()
        for part in place.parts(table)
        if not part.is_shared
    ]
    around: list[tuple[str, TableName]] = []
    for folder, table in sorted(folders):
        around = [(outer, of) for outer, of in around if folder.startswith(outer)]
        for outer, of in around:
            if of != table:
                raise ConfigError(
                    f"{of} and {table} would read the same files",
                    found=f"found {outer or '.'} and {folder or '.'}",
                    todo="Give each a folder of its own, by `load` and `changes` under [tables.….source].",
                )
        around.append((folder, table))


@hookimpl
def register(registry: Registry) -> None:
    """Register the source `dms`, what looks at its files, and statistics of its tasks in a `file`."""
    registry.sources.add("dms", build)
    registry.inventories.add("dms", build_inventory)
    registry.unrouted_rows.add("dms", build_strays)
    registry.probes.add("dms", build_probe)
    registry.statistics.add("file", build_statistics)
