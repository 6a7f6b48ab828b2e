"""The source `files`: CSV, JSON lines, Parquet or change messages in a landing folder, from any writer but DMS."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lakeward.adapters.spark.session.java import check_spark
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.core.ports import Source, SourceInventory, SourceProbe
from lakeward.plugins import Options, Registry, Runtime, hookimpl
from lakeward.plugins.options import validated


def build(options: Options, runtime: Runtime) -> Source[Any]:
    """Return the source for the settings of [source] and of the tables; raises ConfigError for invalid ones."""
    check_spark()
    from lakeward.adapters.sources.files.source import FilesSource  # noqa: PLC0415  # Spark is imported when it is needed
    from lakeward.core.ledger.selection import Limits  # noqa: PLC0415

    settings, tables, folder = _validate(options, runtime)
    small, limits = runtime.small_batch, Limits(settings.max_files, settings.max_bytes)
    return FilesSource(
        *(settings, folder, runtime.spark, options["formats"], tables),
        now=runtime.now,
        small_batch=small,
        next_objects=lambda _, selection: selection.following(limits),
    )


def build_inventory(options: Options, runtime: Runtime) -> SourceInventory:
    """Return the inventory of the landing folder, which needs no Spark."""
    from lakeward.adapters.sources.files.inventory import FilesSourceInventory  # noqa: PLC0415

    settings, tables, folder = _validate(options, runtime)
    return FilesSourceInventory(settings, folder, tables)


def build_probe(options: Options, runtime: Runtime) -> SourceProbe:
    """Return the probe of the folder `path`, which is not configured yet."""
    from lakeward.adapters.sources.files.paths.file_names import FileNames  # noqa: PLC0415
    from lakeward.adapters.sources.files.probe import FilesSourceProbe  # noqa: PLC0415
    from lakeward.adapters.sources.landing.folder_factory import open_folder  # noqa: PLC0415
    from lakeward.adapters.sources.landing.places import Place, Places  # noqa: PLC0415

    return FilesSourceProbe(open_folder(runtime, str(options["path"]), None, Places(Place(FileNames()))))


def _validate(options: Options, runtime: Runtime) -> tuple[Any, Mapping[TableName, Any], Any]:
    """Return the validated options, the options of tables with settings of their own, and the landing folder."""
    from lakeward.adapters.sources.files import options as model  # noqa: PLC0415  # imports pydantic
    from lakeward.adapters.sources.landing.folder_factory import open_folder  # noqa: PLC0415
    from lakeward.adapters.sources.landing.places import Places  # noqa: PLC0415

    own = {name: value for name, value in options.items() if name not in ("formats", "tables")}
    settings = validated(model.FilesOptions, own, str(runtime.file), within="source")
    own_settings: Mapping[TableName, Mapping[str, Any]] = options.get("tables", {})
    tables = {table: own_options(settings, table, values, runtime) for table, values in own_settings.items()}
    _check_folders(settings, {table: tables.get(table, settings) for table in {*options["formats"], *tables}})
    places = Places(settings.place(), {table: place.place() for table, place in tables.items()})
    archive = settings.archive if settings.landing == "archived" else None
    return settings, tables, open_folder(runtime, settings.path, archive, places)


def own_options(settings: Any, table: TableName, values: Mapping[str, Any], runtime: Runtime) -> Any:
    """Return the options of a table with the settings `values` of its own; raises ConfigError for invalid ones."""
    from lakeward.adapters.sources.files import options as model  # noqa: PLC0415

    where, within = str(runtime.file), f'tables."{table}".source'
    own = validated(model.FilesTableOptions, values, where, within=within)
    options_ = validated(model.FilesOptions, settings.with_own(own), where, within=within)
    return options_ if own.folder is None else options_.model_copy(update={"folder": own.folder})


def _check_folders(settings: Any, tables: Mapping[TableName, Any]) -> None:
    """Raise ConfigError for a folder within that of another table, and for archived files that two tables read.

    Tables may share a folder if `names` separates their files. Messages may, because they name their table.
    """
    is_archived = settings.landing == "archived"
    if is_archived and "{schema}" not in settings.folder:
        raise _not_archived(f"`folder` is {settings.folder!r}, and all tables read it")
    for outer, of, inner, table in _nested(tables):
        readers = f"{of} reads {outer or '.'}, and {table} reads {inner or '.'}"
        if is_archived:
            raise _not_archived(readers)
        if outer != inner and not tables[of].is_messages:
            raise ConfigError(
                f"the folder of {table} lies within that of {of}, which would read its files, too",
                found=readers,
                todo="Give each table a folder outside of the others, or set `names` for both, so that each reads "
                f'its own files: [tables."{of}".source].',
            )


def _nested(tables: Mapping[TableName, Any]) -> Iterator[tuple[str, TableName, str, TableName]]:
    """Yield pairs of tables that read the same files: outer folder, its table, inner or equal folder, its table."""
    from lakeward.adapters.sources.landing.places import fill_template, path_prefix  # noqa: PLC0415

    folders = sorted(
        (path_prefix(fill_template(own.folder, table).lower()), table) for table, own in tables.items()
    )
    outer_folders: list[tuple[str, TableName]] = []
    for folder, table in folders:
        outer_folders = [(outer, of) for outer, of in outer_folders if folder.startswith(outer)]
        for outer, of in outer_folders:
            if None in (both := {tables[of].names, tables[table].names}) or len(both) == 1:
                yield outer, of, folder, table
        outer_folders.append((folder, table))


def _not_archived(found: str) -> ConfigError:
    return ConfigError(
        "files that several tables read cannot be archived",
        found=found,
        todo='Set `landing = "kept"` under [source]: one table would take them away from the others.',
    )


@hookimpl
def register(registry: Registry) -> None:
    """Register the source `files`."""
    registry.sources.add("files", build)
    registry.inventories.add("files", build_inventory)
    registry.probes.add("files", build_probe)
