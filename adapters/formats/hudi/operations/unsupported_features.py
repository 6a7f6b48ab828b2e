"""What a Hudi table that another job made has that lakeward cannot write, as its properties and its timeline tell.

No Spark is needed. Where a table differs from those that lakeward makes and the difference does no harm, it is
honoured: `theirs` says how.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakeward.adapters.formats.hudi.metadata.clock import MACHINE, Clock, ahead
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
"""Properties, the value that lakeward can write, and what another one means."""

_GENERATORS: Final[Mapping[str, str]] = {
    "SIMPLE": "SimpleKeyGenerator",
    "SIMPLE_AVRO": "SimpleKeyGenerator",
    "COMPLEX": "ComplexKeyGenerator",
    "COMPLEX_AVRO": "ComplexKeyGenerator",
    "NON_PARTITION": "NonpartitionedKeyGenerator",
    "NON_PARTITION_AVRO": "NonpartitionedKeyGenerator",
}
"""The generators of keys that take record key and partition from columns as they are."""

_INDEXES: Final = ("files", "column_stats", "partition_stats", "bloom_filters", "record_index")
"""The parts of a metadata table that no SQL asked for."""

MERGED: Final[Mapping[str, str]] = {
    "hoodie.record.merge.mode": "COMMIT_TIME_ORDERING",
    f"{_MERGING}hoodie.payload.delete.field": names.BATCH,
    f"{_MERGING}hoodie.payload.delete.marker": str(DELETED),
}
"""How Hudi merges two rows of a key in a table of lakeward, as its properties say it."""

_MERGED_OTHERWISE: Final = (
    "hoodie.compaction.payload.class",
    "hoodie.record.merge.strategy.id",
    "hoodie.table.legacy.payload.class",
    "hoodie.table.ordering.fields",
    "hoodie.table.partial.update.mode",
    "hoodie.table.precombine.field",
)
"""Properties by which Hudi merges them otherwise."""

_ACTIONS: Final[Mapping[str, str]] = {"deltacommit": "commit", "inflight": "commit", "replacecommit": "commit"}
_MENDED: Final[Mapping[str, str]] = {
    "compaction": "`CALL run_compaction(op => 'execute', path => '…')` in Spark",
    "clustering": "`CALL run_clustering(op => 'execute', path => '…')` in Spark",
}
_AGAIN: Final = "let the other job write once more: Hudi takes back what was cut off"
"""What an action is to people that was not completed, and how it is."""

_PENDING: Final = re.compile(r"(\d{14,17})\.(\w+)(?:\.\w+)?")
_DONE: Final = re.compile(r"(\d{14,17})_\d{14,17}\..+")
_TEXTS: Final = ("boolean", "int", "bigint", "decimal", "string", "date")
"""The types of which Hudi writes the text that Spark writes, in record keys."""


@dataclass(frozen=True, slots=True)
class Features:
    """A table by its properties, as a job left it in a folder."""

    folder: Folder
    properties: Mapping[str, str]
    clock: Clock = MACHINE

    @property
    def record_key(self) -> Sequence[str]:
        """The columns of the record key."""
        return self._list("hoodie.table.recordkey.fields")

    @property
    def partitions(self) -> Sequence[str]:
        """The columns that rows are partitioned by; a custom generator of keys says more of each."""
        return [name.partition(":")[0] for name in self._list("hoodie.table.partition.fields")]

    @property
    def write_mode(self) -> str:
        """How changes are written, as the settings call it."""
        return self.properties.get("hoodie.table.type", "COPY_ON_WRITE").replace("_", "-").lower()

    @property
    def merged_otherwise(self) -> Sequence[str]:
        """The properties by which Hudi merges two rows of a key otherwise than lakeward has it."""
        known = {*MERGED, *_MERGED_OTHERWISE}
        said = [name for name in self.properties if name in known or name.startswith(_MERGING)]
        return sorted(name for name in said if self.properties[name] != MERGED.get(name))

    @property
    def is_complex(self) -> bool:
        """Whether a record key says the names of its columns."""
        return len(self.record_key) > 1 or self._generator == "ComplexKeyGenerator"

    def prefix(self, column: str) -> str:
        """Return what stands before a value in the path of its partition."""
        return f"{column}=" if self._is("hive_style_partitioning") else ""

    @property
    def is_encoded(self) -> bool:
        """Whether values in paths are written as in URLs."""
        return self._is("partitionpath.urlencode")

    def theirs(self, index: Mapping[str, str]) -> Mapping[str, str]:
        """Return what each write is told, so that rows lie as they do; `index` says by what they are found."""
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
        """Return in words what stands in the way, and what to do."""
        yield from self._old()
        yield from self._unwritten()
        yield from self._keys(dimension)
        yield from self._laid_out_otherwise(options)
        yield from self._unfinished()

    def _old(self) -> Iterator[str]:
        version = self.properties.get("hoodie.table.version", "0")
        if version != _VERSION:
            yield (
                f"it is of table version {version}, and lakeward writes {_VERSION} "
                f"(`CALL upgrade_table(table => '…', to_version => 'NINE')` in Spark, with Hudi 1.1 or later)"
            )

    def _unwritten(self) -> Iterator[str]:
        for name, (wanted, words) in _UNWRITTEN.items():
            found = self.properties.get(name) or wanted
            if found.lower() != wanted.lower():
                yield f"{words} (`{name}` is {found})"
        for part in self._list(_METADATA):
            if part not in _INDEXES:
                yield f"it has the index {part} (`DROP INDEX … ON …` in Spark)"
        evolved = self.folder.within(METADATA).within(".schema").files()
        if any(file.name.endswith(".schemacommit") for file in evolved):
            yield "its columns were renamed or dropped by `hoodie.schema.on.read.enable`: old files have others"

    def _keys(self, dimension: Dimension) -> Iterator[str]:
        wanted, found = sorted(dimension.key), sorted(self.record_key)
        if wanted != found:
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
        """The class that makes its keys, None where it is another than lakeward knows."""
        kind = self.properties.get("hoodie.table.keygenerator.type")
        if kind is None:
            name = self.properties.get("hoodie.table.keygenerator.class", "").rpartition(".")[2]
            return name.replace("Avro", "") if name.replace("Avro", "") in _GENERATORS.values() else None
        return _GENERATORS.get(kind)

    def _laid_out_otherwise(self, options: TableOptions) -> Iterator[str]:
        if list(options.partition_by) != list(self.partitions):
            said = "[" + ", ".join(f'"{name}"' for name in self.partitions) + "]"
            yield f"`partition_by` differs: say `partition_by = {said}`, as it is partitioned"
        if options.write_mode != self.write_mode:
            yield f'`write_mode` differs: say `write_mode = "{self.write_mode}"`, as it is made'

    def _unfinished(self) -> Iterator[str]:
        timeline = Timeline(self.folder)
        names = [file.name for file in timeline.folder.files()]
        done = {found[1] for found in map(_DONE.fullmatch, names) if found}
        pending = {found[1]: found[2] for found in map(_PENDING.fullmatch, names) if found and found[1] not in done}
        for instant, action in sorted(pending.items()):
            what, todo = _ACTIONS.get(action, action), _MENDED.get(action, _AGAIN)
            yield f"its {what} of {instant} was not completed ({todo})"
        if (words := ahead(timeline, self.clock)) is not None:
            yield f"{words}: another zone had it so, or another clock (wait until then)"

    def _is(self, option: str) -> bool:
        return self.properties.get(f"hoodie.datasource.write.{option}", "false").lower() == "true"

    def _list(self, name: str) -> Sequence[str]:
        return [part for part in self.properties.get(name, "").split(",") if part]
