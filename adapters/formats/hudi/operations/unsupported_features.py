"""Features of another job's Hudi table that lakeward cannot write.

They are found in its properties and its timeline, without Spark. Harmless differences from tables that lakeward
creates are respected: `write_options` returns them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakeward.adapters.formats.hudi.metadata.clock import MACHINE, Clock, describe_clock_lag
from lakeward.adapters.formats.hudi.metadata.timeline import METADATA, Timeline
from lakeward.adapters.formats.hudi.operations.layout import DELETED, ENCODED, GENERATOR, RECORD_KEY
from lakeward.adapters.formats.hudi.options import TableOptions
from lakeward.adapters.formats.shared.storage.folder import Folder
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Dimension

_VERSION: Final = "9"
_METADATA: Final = "hoodie.table.metadata.partitions"
_MERGING: Final = "hoodie.record.merge.property."

_UNWRITTEN: Final[Mapping[str, tuple[str, str]]] = {
    "hoodie.populate.meta.fields": ("true", "its rows have no record keys of their own"),
    "hoodie.datasource.write.drop.partition.columns": ("false", "its files lack the columns of the partitions"),
    "hoodie.datasource.write.slash.separated.date.partitioning": ("false", "its partitions are parts of dates"),
    "hoodie.table.cdc.enabled": ("false", "it keeps a log of changes beside its rows"),
    "hoodie.table.base.file.format": ("PARQUET", "its rows are in files of another format than Parquet"),
    "hoodie.table.multiple.base.file.formats.enable": ("false", "its rows are in files of several formats"),
    "hoodie.table.format": ("native", "it is a table of another format at once"),
    "hoodie.bootstrap.base.path": ("", "its rows are in the files of another table (bootstrap)"),
    "hoodie.table.metadata.partitions.inflight": ("", "an index of it is being built"),
}
"""Properties, the value that lakeward can write with, and what another value means."""

_GENERATORS: Final[Mapping[str, str]] = {
    "SIMPLE": "SimpleKeyGenerator",
    "SIMPLE_AVRO": "SimpleKeyGenerator",
    "COMPLEX": "ComplexKeyGenerator",
    "COMPLEX_AVRO": "ComplexKeyGenerator",
    "NON_PARTITION": "NonpartitionedKeyGenerator",
    "NON_PARTITION_AVRO": "NonpartitionedKeyGenerator",
}
"""Key generators that take record key and partition from columns unchanged."""

_INDEXES: Final = ("files", "column_stats", "partition_stats", "bloom_filters", "record_index")
"""Partitions of the metadata table that Hudi creates by itself."""

MERGE_PROPERTIES: Final[Mapping[str, str]] = {
    "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
    f"{_MERGING}hoodie.payload.delete.field": names.BATCH,
    f"{_MERGING}hoodie.payload.delete.marker": str(DELETED),
}
"""The properties by which Hudi merges two rows of a key in a table of lakeward."""

_OTHER_MERGE_PROPERTIES: Final = (
    "hoodie.compaction.payload.class",
    "hoodie.record.merge.strategy.id",
    "hoodie.table.legacy.payload.class",
    "hoodie.table.ordering.fields",
    "hoodie.table.partial.update.mode",
    "hoodie.table.precombine.field",
)
"""Properties by which Hudi merges rows in another way."""

_ACTIONS: Final[Mapping[str, str]] = {"deltacommit": "commit", "inflight": "commit", "replacecommit": "commit"}
_COMPLETED_BY: Final[Mapping[str, str]] = {
    "compaction": "`CALL run_compaction(op => 'execute', path => '…')` in Spark",
    "clustering": "`CALL run_clustering(op => 'execute', path => '…')` in Spark",
}
_WRITE_AGAIN: Final = "let the other job write once more: Hudi rolls back what was not completed"
"""What people call an action that was not completed, and how to complete it."""

_PENDING: Final = re.compile(r"(\d{14,17})\.(\w+)(?:\.\w+)?")
_DONE: Final = re.compile(r"(\d{14,17})_\d{14,17}\..+")
_TEXTS: Final = ("boolean", "int", "bigint", "decimal", "string", "date")
"""The types whose text in record keys Hudi and Spark write alike."""


@dataclass(frozen=True, slots=True)
class Features:
    """The features of a table, from its folder and properties."""

    folder: Folder
    properties: Mapping[str, str]
    clock: Clock = MACHINE

    @property
    def record_key(self) -> Sequence[str]:
        """The columns of the record key."""
        return self._list("hoodie.table.recordkey.fields")

    @property
    def partitions(self) -> Sequence[str]:
        """The partition columns; a custom key generator adds a type to each name, which is left out."""
        return [name.partition(":")[0] for name in self._list("hoodie.table.partition.fields")]

    @property
    def write_mode(self) -> str:
        """The table type, as the setting `write_mode` names it."""
        return self.properties.get("hoodie.table.type", "COPY_ON_WRITE").replace("_", "-").lower()

    @property
    def other_merge_properties(self) -> Sequence[str]:
        """The properties by which Hudi merges two rows of a key in another way than lakeward needs."""
        merge_properties = {*MERGE_PROPERTIES, *_OTHER_MERGE_PROPERTIES}
        properties = [name for name in self.properties if name in merge_properties or name.startswith(_MERGING)]
        return sorted(name for name in properties if self.properties[name] != MERGE_PROPERTIES.get(name))

    @property
    def is_complex(self) -> bool:
        """Whether record keys contain the names of their columns."""
        return len(self.record_key) > 1 or self._generator == "ComplexKeyGenerator"

    def prefix(self, column: str) -> str:
        """Return what precedes a value in the path of its partition."""
        return f"{column}=" if self._is("hive_style_partitioning") else ""

    @property
    def is_encoded(self) -> bool:
        """Whether values in paths are URL-encoded."""
        return self._is("partitionpath.urlencode")

    def write_options(self, index: Mapping[str, str]) -> Mapping[str, str]:
        """Return the write options that keep rows where they are; `index` are those of the index."""
        is_hive_style = self._is("hive_style_partitioning")
        return {
            "hoodie.table.name": self.properties["hoodie.table.name"],
            GENERATOR: f"org.apache.hudi.keygen.{self._generator}",
            "hoodie.datasource.write.hive_style_partitioning": str(is_hive_style).lower(),
            ENCODED: str(self.is_encoded).lower(),
            **({RECORD_KEY: ",".join(self.record_key)} if self.record_key else {}),
            **index,
        }

    def refused(self, dimension: Dimension, options: TableOptions) -> Iterator[str]:
        """Yield messages about what prevents writing, and what to do."""
        yield from self._refused_version()
        yield from self._refused_properties()
        yield from self._refused_keys(dimension)
        yield from self._refused_layout(options)
        yield from self._pending_actions()

    def _refused_version(self) -> Iterator[str]:
        version = self.properties.get("hoodie.table.version", "0")
        if version != _VERSION:
            yield (
                f"it is of table version {version}, and lakeward writes {_VERSION} "
                f"(`CALL upgrade_table(table => '…', to_version => 'NINE')` in Spark, with Hudi 1.1 or later)"
            )

    def _refused_properties(self) -> Iterator[str]:
        for name, (wanted, meaning) in _UNWRITTEN.items():
            value = self.properties.get(name) or wanted
            if value.lower() != wanted.lower():
                yield f"{meaning} (`{name}` is {value})"
        for part in self._list(_METADATA):
            if part not in _INDEXES:
                yield f"it has the index {part} (`DROP INDEX … ON …` in Spark)"
        evolved = self.folder.within(METADATA).within(".schema").files()
        if any(file.name.endswith(".schemacommit") for file in evolved):
            yield "its columns were renamed or dropped by `hoodie.schema.on.read.enable`: old files have others"

    def _refused_keys(self, dimension: Dimension) -> Iterator[str]:
        wanted, present = sorted(dimension.key), sorted(self.record_key)
        if wanted != present:
            yield (
                f"its record key is {', '.join(self.record_key) or 'made by Hudi'}, and `key` is "
                f"{', '.join(dimension.key) or 'none'}: they must be the same columns"
            )
        for name in self.record_key:
            column = dimension.schema.find(name)
            if column is not None and column.type.name not in _TEXTS:
                yield f"its record key has {name}, and the text of a {column.type} in it is not told for sure"
        if self._generator is None:
            kind = self.properties.get("hoodie.table.keygenerator.type") or self.properties.get(
                "hoodie.table.keygenerator.class"
            )
            yield f"its keys are made by {kind}, and not of columns as they are"

    @property
    def _generator(self) -> str | None:
        """The class that generates its keys, None if lakeward does not know it."""
        kind = self.properties.get("hoodie.table.keygenerator.type")
        if kind is None:
            name = self.properties.get("hoodie.table.keygenerator.class", "").rpartition(".")[2]
            return name.replace("Avro", "") if name.replace("Avro", "") in _GENERATORS.values() else None
        return _GENERATORS.get(kind)

    def _refused_layout(self, options: TableOptions) -> Iterator[str]:
        if list(options.partition_by) != list(self.partitions):
            present = "[" + ", ".join(f'"{name}"' for name in self.partitions) + "]"
            yield f"`partition_by` differs: say `partition_by = {present}`, as it is partitioned"
        if options.write_mode != self.write_mode:
            yield f'`write_mode` differs: say `write_mode = "{self.write_mode}"`, as it is made'

    def _pending_actions(self) -> Iterator[str]:
        timeline = Timeline(self.folder)
        names = [file.name for file in timeline.folder.files()]
        completed = {match[1] for match in map(_DONE.fullmatch, names) if match}
        pending = {
            match[1]: match[2] for match in map(_PENDING.fullmatch, names) if match and match[1] not in completed
        }
        for instant, action in sorted(pending.items()):
            action_name, todo = _ACTIONS.get(action, action), _COMPLETED_BY.get(action, _WRITE_AGAIN)
            yield f"its {action_name} of {instant} was not completed ({todo})"
        if (message := describe_clock_lag(timeline, self.clock)) is not None:
            yield f"{message}: another zone had it so, or another clock (wait until then)"

    def _is(self, option: str) -> bool:
        return self.properties.get(f"hoodie.datasource.write.{option}", "false").lower() == "true"

    def _list(self, name: str) -> Sequence[str]:
        return [part for part in self.properties.get(name, "").split(",") if part]
