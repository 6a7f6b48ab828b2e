"""Checks of a Hudi table's options and changes, before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Final

from lakeward.adapters.formats.hudi.metadata.columns import check_columns
from lakeward.adapters.formats.hudi.metadata.timeline import METADATA, Timeline
from lakeward.adapters.formats.hudi.operations.layout import Layout, has_record_key
from lakeward.adapters.formats.hudi.options import LASTING, TableOptions, is_harmless
from lakeward.adapters.formats.hudi.writes.property_names import closest_property
from lakeward.adapters.formats.shared.options.refusals import reserved_property, unknown_column
from lakeward.adapters.formats.shared.rows.system_columns import check_names
from lakeward.adapters.formats.shared.storage.folder import Folder
from lakeward.core.dimension import Dimension
from lakeward.core.errors import ConfigError, TableError
from lakeward.core.schema_changes.evolution import Evolution

_PARTITIONS: Final = ("boolean", "int", "bigint", "decimal", "string", "date")
"""The types of partition columns: Hudi reads back the text that it writes of their values."""


def check_table(dimension: Dimension, options: TableOptions) -> None:
    """Raise ConfigError for columns and options that no Hudi table of lakeward can have."""
    stored = dimension.stored
    reserved = [name for name in stored.schema.names if name.startswith("_hoodie_")]
    check_names(dimension, reserved, "Hudi")
    check_columns(stored)
    check_options(stored, options)


def check_options(dimension: Dimension, options: TableOptions) -> None:
    """Raise ConfigError for properties that lakeward decides, and for columns that cannot partition."""
    for name in options.properties:
        _check_property(dimension, name)
    for name in options.partition_by:
        column = dimension.schema.find(name)
        if column is None:
            raise unknown_column(dimension, "partition_by", name, "Hudi knows no transforms: name a column.")
        if column.type.name not in _PARTITIONS:
            raise ConfigError(
                f"{dimension.name}: rows cannot be partitioned by {name!r}",
                found=f"it is {column.type}; it may be {', '.join(_PARTITIONS)}",
                todo="Choose another column, or none.",
            )


def _check_property(dimension: Dimension, name: str) -> None:
    if not is_harmless(name):
        raise reserved_property(
            dimension,
            name,
            "It may say how files are written, compacted and cleaned up. `write_mode`, `partition_by` and "
            "`buckets` say how a table is made; lakeward says how a row is found and which one counts.",
        )
    if (similar := closest_property(name)) is not None:
        raise ConfigError(f"{dimension.name}: Hudi knows no setting {name!r}", todo=f"Did you mean {similar!r}?")


def check_place(dimension: Dimension, folder: Folder) -> None:
    """Raise TableError for creating a table in a folder that holds something else, or something unknown."""
    first = folder.holds()
    if first is None:
        return
    metadata = folder.within(METADATA)
    old_commits = sorted(file.name for file in metadata.files() if fnmatchcase(file.name, "*.*commit"))
    if old_commits or Timeline(folder).is_there:
        what = "is a Hudi table that lakeward did not make"
        found = (
            f"{metadata}/{old_commits[0]} is of an older Hudi"
            if old_commits
            else "no commit of it says which columns it has"
        )
    elif first != METADATA and metadata.holds() is None:
        what, found = "is no Hudi table, and not empty", f"there is {first}"
    else:
        return  # a first commit that was not completed: the next write of Hudi rolls it back
    raise TableError(
        f"{dimension.name}: the folder {folder} {what}",
        found=found,
        todo="Nothing was applied. Choose another `warehouse` or `namespace` under [target], or empty it.",
    )


def check_record_key(dimension: Dimension, properties: Mapping[str, str]) -> None:
    """Raise ConfigError if the table has record keys and the settings need none, or the other way round.

    A table without a key has record keys if it was created with `match = "image"`, for good.
    """
    has_keys, needs_keys = bool(properties.get("hoodie.table.recordkey.fields")), has_record_key(dimension)
    if has_keys == needs_keys:
        return
    was_made, say = ("with", "do not say") if has_keys else ("without", "say")
    raise ConfigError(
        f"{dimension.name}: `match` of a Hudi table cannot change",
        found=f'the table was made {was_made} `match = "image"`, and the settings {say} so',
        todo="Put it back. Or drop the table and its side tables to load it anew.",
    )


def check_change(dimension: Dimension, options: TableOptions, layout: Layout, changes: Evolution) -> None:
    """Raise ConfigError for changes that need the table to be loaded anew; `layout` is its layout."""
    renamed = [name for name in layout.place(dimension) if name in changes.renames]
    if renamed:
        why = "the table is partitioned by it" if renamed[0] in layout.partition_by else "its record key has it"
        raise ConfigError(
            f"{dimension.name}: {renamed[0]!r} cannot be renamed: {why}",
            found=f"it would be called {changes.renames[renamed[0]]!r}",
            todo="Take the rename out of the settings. Or drop the table and its side tables to load it "
            "anew.",
        )
    for name in LASTING:
        wanted, present = getattr(options, name), getattr(layout, name)
        if wanted != present:
            raise ConfigError(
                f"{dimension.name}: `{name}` of a Hudi table cannot change",
                found=f"the table was made with {present!r}, and the settings say {wanted!r}",
                todo="Put it back. Or drop the table and its side tables to load it anew.",
            )
