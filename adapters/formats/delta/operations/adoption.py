"""Adopt a Delta table that another engine wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import deltalake
from pyspark.sql import DataFrame

from lakeward.adapters.formats.delta import ddl
from lakeward.adapters.formats.delta.java import Jvm, committing
from lakeward.adapters.formats.delta.writes.change import Change
from lakeward.adapters.formats.delta_rs.columns import columns_in
from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.adapters.formats.shared.operations.adoption import refused_null
from lakeward.adapters.formats.shared.operations.commit_failures import discarding_on_failure, table_changed
from lakeward.adapters.formats.shared.rows.system_columns import check_names
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.ports import Commit
from lakeward.core.progress import Progress
from lakeward.core.schema import Schema
from lakeward.core.schema_changes.evolution import SchemaChange

_DOMAINS: Final = "domainMetadata"
_WRITTEN: Final = frozenset(
    {
        *("appendOnly", "invariants", "checkConstraints", "generatedColumns", "identityColumns"),
        *("changeDataFeed", "columnMapping", "deletionVectors", _DOMAINS, "timestampNtz", "allowColumnDefaults"),
        *("typeWidening", "typeWidening-preview", "v2Checkpoint", "vacuumProtocolCheck", "inCommitTimestamp"),
        *("rowTracking", "clustering", "checkpointProtection"),
    }
)
"""Table features that do not prevent writing. For some of them the use in columns is checked as well."""

_DROPPABLE: Final = frozenset(
    {
        *("catalogManaged", "coordinatedCommits-preview", "materializePartitionColumns"),
        "redirectReaderWriter-preview",
    }
)
"""Other features that Delta 4.4 can remove from a table: its `RemovableFeature`."""

_BY_COLUMN: Final = {
    "delta.generationExpression": "is computed by the table",
    "delta.identity.start": "is numbered by the table",
    "delta.invariants": "has an invariant",
}
"""Metadata of columns that makes Delta refuse or change values of the source."""


@dataclass(frozen=True, slots=True)
class DeltaExternalTable:
    """A table of any writer as it was loaded."""

    jvm: Jvm
    name: TableName
    places: Places
    table: deltalake.DeltaTable

    @property
    def path(self) -> str:
        """Its path or URL for Spark."""
        return self.places.of(self.name)

    @property
    def state(self) -> str:
        """The number of its version."""
        return str(self.table.version())

    def columns(self) -> Schema:
        """Return its columns."""
        return columns_in(self.table.schema(), str(self.name))

    def refused(self, dimension: Dimension) -> Sequence[str]:
        """Return messages about features that lakeward cannot write."""
        check_names(dimension, ddl.RESERVED, "Spark")
        return [*self._refused_features(), *self._refused_columns(dimension.key)]

    def _refused_features(self) -> Iterator[str]:
        unknown = set(self.table.protocol().writer_features or ()) - _WRITTEN
        for feature in sorted(unknown):
            way = f" (`ALTER TABLE … DROP FEATURE '{feature}'`)" if feature in _DROPPABLE else ""
            yield f"it has the table feature {feature}{way}"
        settings = self.table.metadata().configuration
        if settings.get("delta.appendOnly") == "true":
            yield "it takes no updates or deletes (`delta.appendOnly`)"
        for name in sorted(settings):
            if name.startswith("delta.constraints."):
                yield f"it has the constraint {name.removeprefix('delta.constraints.')}"

    def _refused_columns(self, key: Sequence[str]) -> Iterator[str]:
        fields: Sequence[Mapping[str, Any]] = json.loads(self.table.schema().to_json())["fields"]
        for field in fields:
            for name, message in _BY_COLUMN.items():
                if name in field["metadata"]:
                    yield f"its column {field['name']} {message}"
            if not field["nullable"] and field["name"] not in key:
                yield refused_null("column", field["name"], "NOT NULL")
            for path in _not_null(field["type"], field["name"]):
                yield refused_null("field", path, "NOT NULL")

    def rows(self) -> DataFrame:
        """Return all rows."""
        return self.jvm.spark.read.format("delta").option("versionAsOf", self.table.version()).load(self.path)

    def take_over(self, changes: Sequence[SchemaChange], progress: Progress) -> Commit:
        """Commit a version with the same files, more columns, and the progress.

        If the table has no metadata domains, a version before it enables them.
        """
        with committing(str(self.name)), self.places.apart(self.name):
            expected = self.table.version()
            if _DOMAINS not in (self.table.protocol().writer_features or ()):
                ddl.enable(self.jvm.spark, self.path, dict(ddl.DOMAIN_METADATA))
                expected += 1
            snapshot = self.jvm.snapshot(self.path)
            if int(snapshot.version()) != expected:
                raise table_changed(str(self.name))
            change = Change(self.jvm, self.path, snapshot)
            with discarding_on_failure(str(self.name), change, "Delta"):
                change.evolve(changes)
                return change.commit(progress, 0, 0)


def _not_null(type_: Any, path: str) -> Iterator[str]:
    """Yield the paths of struct fields that are NOT NULL, in the JSON of Delta's protocol.

    Delta does not enforce it for elements of lists and values of maps.
    """
    if isinstance(type_, str):
        return
    for field in type_.get("fields", ()):
        if not field["nullable"]:
            yield f"{path}.{field['name']}"
        yield from _not_null(field["type"], f"{path}.{field['name']}")
    for part, name in (("elementType", "element"), ("keyType", "key"), ("valueType", "value")):
        if part in type_:
            yield from _not_null(type_[part], f"{path}.{name}")
