"""The layout of a Delta table compared with its settings.

Properties can be changed, and deletion vectors with them; partitions cannot.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from deltalake import DeltaTable as Log

from lakeward.adapters.formats.delta import ddl
from lakeward.adapters.formats.delta.checks import check_options
from lakeward.adapters.formats.delta.java import Jvm, committing
from lakeward.adapters.formats.delta.metadata.clustering import clustered_by
from lakeward.adapters.formats.delta.metadata.progress import log_of
from lakeward.adapters.formats.delta.options import TableOptions
from lakeward.adapters.formats.shared.options.option_text import option_text
from lakeward.adapters.formats.shared.storage.folder import Folder
from lakeward.core.ports import LayoutChange

if TYPE_CHECKING:
    from lakeward.adapters.formats.delta.table import DeltaTable

_VECTORS: Final = "delta.enableDeletionVectors"
_MODES: Final = {"true": "merge-on-read", "false": "copy-on-write"}
_HOW: Final = {
    "merge-on-read": "from the next batch on deleted rows are marked in vectors, which every reader must know",
    "copy-on-write": "from the next batch on files are written anew; vectors that there are stay until theirs is",
}


class DeltaLayout:
    """The layout of one table."""

    def __init__(self, table: DeltaTable) -> None:
        self.table = table

    def differences(self) -> Sequence[LayoutChange]:
        """Return the options of its settings that the table has otherwise."""
        places, name = self.table.places, self.table.dimension.name
        table = places.load(name)
        return () if table is None else tuple(_differences(table, log_of(places, name), self.table.options))

    def change(self, changes: Sequence[LayoutChange]) -> None:
        """Change the table to its settings: clustering and properties are one commit each, in this order."""
        check_options(self.table.dimension.stored, self.table.options)
        spark = Jvm(self.table.spark()).spark
        properties = dict(_property(change) for change in changes if change.option != "cluster_by")
        name = self.table.dimension.name
        with committing(str(name)), self.table.places.apart(name):
            if len(properties) < len(changes):
                ddl.cluster(spark, self.table.path, self.table.options.cluster_by)
            if properties:
                ddl.enable(spark, self.table.path, properties)


def _differences(table: Log, log: Folder, options: TableOptions) -> Iterator[LayoutChange]:
    options_set, metadata = options.model_fields_set, table.metadata()
    if "partition_by" in options_set and options.partition_by != list(metadata.partition_columns):
        yield LayoutChange(
            option="partition_by",
            before=option_text(metadata.partition_columns),
            after=option_text(options.partition_by),
            refused="Delta partitions a table once, when it is made.",
            todo=f"Write partition_by = {list(metadata.partition_columns)}, or drop the table to load it anew.",
        )
    clusters = list(clustered_by(table, log)) if "cluster_by" in options_set else []
    if clusters != options.cluster_by:
        yield _clustering(metadata.partition_columns, clusters, options.cluster_by)
    properties: Mapping[str, str | None] = metadata.configuration
    mode = _MODES.get(properties.get(_VECTORS) or "false", "copy-on-write")
    if "write_mode" in options_set and mode != options.write_mode:
        yield LayoutChange(option="write_mode", before=mode, after=options.write_mode, how=_HOW[options.write_mode])
    for name, value in options.properties.items():
        if properties.get(name) != value:
            before = properties.get(name) or "not set"
            yield LayoutChange(option=name, before=before, after=value, how="a property of the table")


def _clustering(partitions: Sequence[str], before: Sequence[str], after: Sequence[str]) -> LayoutChange:
    how = "of files that OPTIMIZE writes from now on"
    change = LayoutChange(option="cluster_by", before=option_text(before), after=option_text(after), how=how)
    if not partitions:
        return change
    why = f"It is partitioned by {option_text(partitions)}, and Delta clusters no such table."
    return replace(change, refused=why, todo="Take `cluster_by` out, or drop the table to load it anew.")


def _property(change: LayoutChange) -> tuple[str, str]:
    if change.option == "write_mode":
        return _VECTORS, str(change.after == "merge-on-read").lower()
    return change.option, change.after
