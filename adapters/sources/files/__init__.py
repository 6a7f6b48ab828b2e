"""The source `files`: files that something else than DMS wrote."""

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
    """Make the source from the table [source] and what the tables say of themselves."""
    check_spark()
    from lakeward.adapters.sources.files.source import FilesSource  # noqa: PLC0415  # Spark is imported when it is needed

    settings, tables, folder = _opened(options, runtime)
    small = runtime.small_batch
    return FilesSource(
        settings, folder, runtime.spark, options["formats"], tables, now=runtime.now, small_batch=small
    )


def build_inventory(options: Options, runtime: Runtime) -> SourceInventory:
    """Look at the landing folder, without Spark."""
    from lakeward.adapters.sources.files.inventory import FilesSourceInventory  # noqa: PLC0415

    settings, tables, folder = _opened(options, runtime)
    return FilesSourceInventory(settings, folder, tables)


def build_probe(options: Options, runtime: Runtime) -> SourceProbe:
    """Look at the folder `path`, which nobody configured yet."""
    from lakeward.adapters.sources.files.paths.file_names import FileNames  # noqa: PLC0415
    from lakeward.adapters.sources.files.probe import FilesSourceProbe  # noqa: PLC0415
    from lakeward.adapters.sources.landing.folder_factory import open_folder  # noqa: PLC0415
    from lakeward.adapters.sources.landing.places import Place, Places  # noqa: PLC0415

    return FilesSourceProbe(open_folder(runtime, str(options["path"]), None, Places(Place(FileNames()))))


def _opened(options: Options, runtime: Runtime) -> tuple[Any, Mapping[TableName, Any], Any]:
    """Return the validated options, those of the tables that have their own, and the landing folder."""
    from lakeward.adapters.sources.files import options as model  # noqa: PLC0415  # pydantic, for who uses the source
    from lakeward.adapters.sources.landing.folder_factory import open_folder  # noqa: PLC0415
    from lakeward.adapters.sources.landing.places import Places  # noqa: PLC0415

    own = {name: value for name, value in options.items() if name not in ("formats", "tables")}
    settings = validated(model.FilesOptions, own, str(runtime.file), within="source")
    said: Mapping[TableName, Mapping[str, Any]] = options.get("tables", {})
    tables = {table: own_options(settings, table, values, runtime) for table, values in said.items()}
    _check_folders(settings, {table: tables.get(table, settings) for table in {*options["formats"], *tables}})
    places = Places(settings.place(), {table: place.place() for table, place in tables.items()})
    archive = settings.archive if settings.landing == "archived" else None
    return settings, tables, open_folder(runtime, settings.path, archive, places)


def own_options(settings: Any, table: TableName, values: Mapping[str, Any], runtime: Runtime) -> Any:
    """Return the options of a table that says something of itself; raises ConfigError for what does not fit."""
    from lakeward.adapters.sources.files import options as model  # noqa: PLC0415

    where, within = str(runtime.file), f'tables."{table}".source'
    own = validated(model.FilesTableOptions, values, where, within=within)
    found = validated(model.FilesOptions, settings.with_own(own), where, within=within)
    return found if own.folder is None else found.model_copy(update={"folder": own.folder})


def _check_folders(settings: Any, tables: Mapping[TableName, Any]) -> None:
    """Refuse a folder within that of another table, and an archive for files that two tables would read.

    With names of their own in one folder each table has its files. Messages say themselves of which table they are.
    """
    is_archived = settings.landing == "archived"
    if is_archived and "{schema}" not in settings.folder:
        raise _not_archived(f"`folder` is {settings.folder!r}, and all tables read it")
    for outer, of, inner, table in _nested(tables):
        found = f"{of} reads {outer or '.'}, and {table} reads {inner or '.'}"
        if is_archived:
            raise _not_archived(found)
        if outer != inner and not tables[of].is_messages:
            raise ConfigError(
                f"the folder of {table} lies within that of {of}, which would read its files, too",
                found=found,
                todo="Let each table have a folder beside the others, or let `names` of both say which files are "
                f'theirs: [tables."{of}".source].',
            )


def _nested(tables: Mapping[TableName, Any]) -> Iterator[tuple[str, TableName, str, TableName]]:
    """Yield folders that have, or are, the folder of another table, with both tables, where both read its files."""
    from lakeward.adapters.sources.landing.places import below, filled  # noqa: PLC0415

    folders = sorted((below(filled(own.folder, table).lower()), table) for table, own in tables.items())
    around: list[tuple[str, TableName]] = []
    for folder, table in folders:
        around = [(outer, of) for outer, of in around if folder.startswith(outer)]
        for outer, of in around:
            if None in (both := {tables[of].names, tables[table].names}) or len(both) == 1:
                yield outer, of, folder, table
        around.append((folder, table))


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
