"""A lake of Delta tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from lakeward.adapters.formats.delta.metadata.progress import standing_of
from lakeward.adapters.formats.delta.options import DeltaOptions, TableOptions
from lakeward.adapters.formats.delta.session import SETTINGS
from lakeward.adapters.formats.delta_rs.description import description_of
from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.adapters.formats.shared.rows.system_columns import of_source
from lakeward.adapters.formats.shared.side_tables.side_table import QUARANTINE
from lakeward.adapters.formats.shared.storage.table_folders import refuse_shared
from lakeward.adapters.spark.session.java import check_spark
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import Key
from lakeward.core.joined.joining import Joining
from lakeward.core.operations.key_state import Known
from lakeward.core.ports import Opened, TableDescription, TableState
from lakeward.core.schema_changes.evolution import Recorded
from lakeward.plugins import Runtime

if TYPE_CHECKING:
    from lakeward.adapters.formats.delta.table import DeltaTable
    from lakeward.adapters.formats.shared.joined.joined_table import Joint
    from lakeward.adapters.spark.frames.local_frame import Frame


class DeltaLake:
    """Tables under one folder, on a disk or in a bucket; each keeps its own progress."""

    def __init__(self, options: DeltaOptions, tables: Mapping[TableName, TableOptions], runtime: Runtime) -> None:
        self.places = Places(options.warehouse, options.namespace, runtime.base)
        self.tables = tables
        self.runtime = runtime
        refuse_shared(tables, options.namespace)
        runtime.require("delta", *self.places.jars, settings={**SETTINGS, **self.places.spark_settings})

    def standing(self, dimension: Dimension) -> TableState:
        """Return what the last commit of ours says, without Spark."""
        return of_source(standing_of(self.places, dimension.name), dimension)

    def schema_changes(self, dimension: Dimension) -> Sequence[Recorded]:
        """Return how the columns of a table changed, as its companion says."""
        check_spark()
        from lakeward.adapters.formats.delta_rs.side_table import DeltaBeside  # noqa: PLC0415  # it imports Spark
        from lakeward.adapters.formats.shared.change_log.table import ChangeLogTable  # noqa: PLC0415  # it imports Spark

        make = partial(DeltaBeside, self.places, dimension.name, self.runtime.spark)
        return ChangeLogTable(dimension, make).batches.schema_changes(self.standing(dimension).progress.batch)

    def known(self, dimension: Dimension, key: Key) -> Known:
        """Return what the table, its companion and its quarantine know of a key, read by delta-rs where it can."""
        check_spark()
        from lakeward.adapters.formats.delta.operations.key_state import known_of  # noqa: PLC0415  # it imports Spark

        return known_of(self.places, dimension, key, self.runtime.spark)

    def identify(self, table: TableName) -> tuple[str, str]:
        """Return namespace and name of a table, which need not be there."""
        return self.places.name(table)

    def describe(self, table: TableName, *, quarantine: bool = False) -> TableDescription | None:
        """Return a table as it is now, or its quarantine, as the log has it; None where there is none."""
        return description_of(self.places, table, QUARANTINE if quarantine else "")

    def open(self, dimension: Dimension) -> Opened[Frame]:
        """Return the table of a dimension; it is made by its first commit."""
        check_spark()
        from lakeward.adapters.formats.delta.operations.layout import DeltaLayout  # noqa: PLC0415  # Spark is imported late
        from lakeward.adapters.formats.delta.operations.maintenance import DeltaMaintenance  # noqa: PLC0415  # so is it here
        from lakeward.adapters.formats.shared.operations.adoption import TableAdoption  # noqa: PLC0415  # and here
        from lakeward.adapters.formats.shared.operations.full_loads import TableLoads  # noqa: PLC0415  # and here
        from lakeward.adapters.formats.shared.operations.rollback import TableVersions  # noqa: PLC0415  # and here
        from lakeward.adapters.formats.shared.operations.table_reader import TableReading  # noqa: PLC0415  # and here
        from lakeward.adapters.formats.shared.operations.verification import TableVerification  # noqa: PLC0415  # and here

        table = self._table(dimension)
        parts, versions = self.places.name(dimension.name), TableVersions(table.kept, table.line)
        policy, adoption = DeltaMaintenance(table), TableAdoption(table.kept, table.theirs)
        layout, whole = DeltaLayout(table), TableVerification(table.kept, table.loaded)
        reading, loads = TableReading(table.kept, table.loaded), TableLoads(table)
        beside = (versions, policy, adoption, layout, whole, reading, loads)
        return Opened(".".join(parts), table, table.kept, table.kept, *beside, parts)

    def joined(self, joining: Joining) -> Joint:
        """Return a joined table, which is made by its first commit."""
        check_spark()
        from lakeward.adapters.formats.shared.joined.joined_table import Joint  # noqa: PLC0415  # Spark is imported late

        sources = {name: self._table(dimension) for name, dimension in joining.tables.items()}
        name, table = ".".join(self.places.name(joining.joined.name)), self._table(joining.dimension)
        return Joint(name, joining, table, sources, self.runtime.spark)

    def _table(self, dimension: Dimension) -> DeltaTable:
        from lakeward.adapters.formats.delta.table import DeltaTable  # noqa: PLC0415  # Spark is imported late

        return DeltaTable(
            self.places,
            dimension,
            self.tables.get(dimension.name, TableOptions()),
            self.runtime.spark,
            self.runtime.small_batch,
            self.runtime.run_ids,
        )
