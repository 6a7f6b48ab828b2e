"""The source `dms`: files that AWS DMS writes, as full loads and changes."""

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
"""The folder below `state` with the index of transaction files, and with rows that tables have not applied yet."""


def build(options: Options, runtime: Runtime) -> Source[Any]:
    """Return the source for the table [source] and the `source` options of its tables."""
    check_spark()
    from lakeward.adapters.sources.dms.source import DmsSource  # noqa: PLC0415  # Spark is imported when it is needed

    settings, folder = _open_source(options, runtime)
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
    from lakeward.adapters.sources.dms.transactions.staged_tables import StagedTables  # noqa: PLC0415

    staged = StagedTables(runtime.state / STAGED, _rows_in_bucket(settings, runtime))
    return SharedFiles(
        *(folder, staged, runtime.spark, settings.dialect, tuple(tables)),
        now=runtime.now,
        max_files=settings.max_files,
    )


def _rows_in_bucket(settings: Any, runtime: Runtime) -> Any:
    """Return the staging of rows in a bucket, or None where rows lie on the disk, next to their index."""
    from lakeward.adapters.sources.dms.transactions.staged_rows import BucketRows  # noqa: PLC0415
    from lakeward.adapters.sources.staging.prefix_factory import open_staging  # noqa: PLC0415

    prefix = open_staging(settings.staging, runtime, "dms")
    return None if prefix is None else BucketRows(prefix)


def build_inventory(options: Options, runtime: Runtime) -> SourceInventory:
    """Return the inventory of the landing folder; it needs no Spark."""
    from lakeward.adapters.sources.dms.inventory import DmsSourceInventory  # noqa: PLC0415
    from lakeward.adapters.sources.dms.transactions.staged_tables import StagedTables  # noqa: PLC0415

    settings, folder = _open_source(options, runtime)
    staged = None if settings.cdc_path is None else StagedTables(runtime.state / STAGED)
    return DmsSourceInventory(settings, folder, staged)


def build_unrouted_rows(options: Options, runtime: Runtime) -> UnroutedRows:
    """Return the rows of transaction files that name no table; it needs no Spark."""
    from lakeward.adapters.sources.dms.transactions.staged_tables import StagedTables  # noqa: PLC0415

    _open_source(options, runtime)
    return StagedTables(runtime.state / STAGED)


def build_probe(options: Options, runtime: Runtime) -> SourceProbe:
    """Return the probe of a folder that nobody has configured; it needs no Spark."""
    from lakeward.adapters.sources.dms.paths.file_names import PLACES  # noqa: PLC0415
    from lakeward.adapters.sources.dms.probe import DmsSourceProbe  # noqa: PLC0415
    from lakeward.adapters.sources.landing.folder_factory import open_folder  # noqa: PLC0415

    return DmsSourceProbe(open_folder(runtime, str(options["path"]), None, PLACES))


def build_statistics(options: Options, runtime: Runtime) -> Statistics:
    """Return the statistics of a replication task, which are read from files when they are asked for."""
    from lakeward.adapters.sources.dms.statistics import StatisticsFile, StatisticsOptions  # noqa: PLC0415

    settings = validated(StatisticsOptions, options, str(runtime.file), within="statistics")
    return StatisticsFile(runtime.base / settings.path)


def _open_source(options: Options, runtime: Runtime) -> tuple[Any, Any]:
    """Return the validated options of the source and its landing folder."""
    from lakeward.adapters.sources.dms import options as model  # noqa: PLC0415  # pydantic is imported when it is needed
    from lakeward.adapters.sources.landing.folder_factory import open_folder  # noqa: PLC0415
    from lakeward.adapters.sources.landing.places import Places  # noqa: PLC0415

    source_options = {name: value for name, value in options.items() if name not in ("formats", "tables")}
    settings = validated(model.DmsOptions, source_options, str(runtime.file), within="source")
    table_options: Mapping[TableName, Mapping[str, Any]] = options.get("tables", {})
    places = {
        table: model.place(
            settings,
            validated(model.DmsTableOptions, values, str(runtime.file), within=f'tables."{table}".source'),
        )
        for table, values in table_options.items()
    }
    _refuse_shared_folders(places)
    archive = settings.archive if settings.landing == "archived" else None
    return settings, open_folder(runtime, settings.path, archive, Places(model.place(settings), places))


def _refuse_shared_folders(places: Mapping[TableName, Any]) -> None:
    """Raise ConfigError for a folder that two tables would read."""
    from lakeward.adapters.sources.landing.places import path_prefix  # noqa: PLC0415

    folders = [
        (path_prefix(part.folder.lower()), table)
        for table, place in places.items()
        for part in place.parts(table)
        if not part.is_shared
    ]
    enclosing: list[tuple[str, TableName]] = []
    for folder, table in sorted(folders):
        enclosing = [(outer, of) for outer, of in enclosing if folder.startswith(outer)]
        for outer, of in enclosing:
            if of != table:
                raise ConfigError(
                    f"{of} and {table} would read the same files",
                    found=f"found {outer or '.'} and {folder or '.'}",
                    todo="Give each a folder of its own, by `load` and `changes` under [tables.….source].",
                )
        enclosing.append((folder, table))


@hookimpl
def register(registry: Registry) -> None:
    """Register the source `dms`, its inventory, unrouted rows and probe, and the statistics `file`."""
    registry.sources.add("dms", build)
    registry.inventories.add("dms", build_inventory)
    registry.unrouted_rows.add("dms", build_unrouted_rows)
    registry.probes.add("dms", build_probe)
    registry.statistics.add("file", build_statistics)
