"""A lake of Hudi tables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from lakeward.adapters.formats.delta_rs.description import description_of as description_of_delta
from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.adapters.formats.hudi.metadata.description import description_of
from lakeward.adapters.formats.hudi.metadata.progress import read_table_state
from lakeward.adapters.formats.hudi.options import HudiOptions, TableOptions
from lakeward.adapters.formats.hudi.session import SETTINGS
from lakeward.adapters.formats.shared.rows.system_columns import of_source
from lakeward.adapters.formats.shared.side_tables.side_table import QUARANTINE
from lakeward.adapters.formats.shared.storage.table_folders import refuse_shared
from lakeward.adapters.spark.session.compatibility import line
from lakeward.adapters.spark.session.java import check_spark
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import SetupError
from lakeward.core.events import Key
from lakeward.core.joined.join_definition import JoinDefinition
from lakeward.core.operations.key_state import KeyState
from lakeward.core.ports import Opened, TableDescription, TableState
from lakeward.core.schema_changes.evolution import RecordedChange
from lakeward.plugins import Runtime

if TYPE_CHECKING:
    from lakeward.adapters.formats.hudi.table import HudiTable
    from lakeward.adapters.formats.shared.joined.joined_table import JoinedLakeTable
    from lakeward.adapters.spark.frames.local_frame import Frame


class HudiLake:
    """Tables under one folder, on a disk or in a bucket. Each stores its own progress."""

    def __init__(self, options: HudiOptions, tables: Mapping[TableName, TableOptions], runtime: Runtime) -> None:
        self.places = Places(options.warehouse, options.namespace, runtime.base)
        self.tables = tables
        self.runtime = runtime
        refuse_shared(tables, options.namespace)
        runtime.require("hudi", *self.places.jars, settings={**SETTINGS, **self.places.spark_settings})

    def table_state(self, dimension: Dimension) -> TableState:
        """Return the table state as of the last commit of ours, without Spark."""
        return of_source(read_table_state(self.places, dimension.name), dimension)

    def schema_changes(self, dimension: Dimension) -> Sequence[RecordedChange]:
        """Return how the columns of a table changed, from its change log."""
        check_spark()
        from lakeward.adapters.formats.delta_rs.side_table_factory import read_schema_changes  # noqa: PLC0415  # it imports Spark

        batch = self.table_state(dimension).progress.batch
        return read_schema_changes(self.places, dimension, self.runtime.spark, batch)

    def key_state(self, dimension: Dimension, key: Key) -> KeyState:
        """Return what the table, its change log and its quarantine know of a key."""
        _check_line()
        from lakeward.adapters.formats.hudi.operations.key_state import read_key_state  # noqa: PLC0415  # it imports Spark

        return read_key_state(self.places, dimension, key, self.runtime.spark)

    def identify(self, table: TableName) -> tuple[str, str]:
        """Return namespace and name of a table, which need not exist."""
        return self.places.name(table)

    def describe(self, table: TableName, *, quarantine: bool = False) -> TableDescription | None:
        """Return the description of a table, or of its quarantine (a Delta table); None if it does not exist."""
        if quarantine:
            return description_of_delta(self.places, table, QUARANTINE)
        return description_of(self.places, table)

    def open(self, dimension: Dimension) -> Opened[Frame]:
        """Return the table of a dimension; its first commit creates it."""
        _check_line()
        from lakeward.adapters.formats.hudi.operations.layout import HudiLayout  # noqa: PLC0415  # Spark is imported late
        from lakeward.adapters.formats.hudi.operations.maintenance import HudiMaintenance  # noqa: PLC0415  # so is it here
        from lakeward.adapters.formats.shared.operations.opened_table import opened_table  # noqa: PLC0415  # and here

        table = self._table(dimension)
        # Hudi commits each write, so there are no direct loads.
        return opened_table(table, self.places.name(dimension.name), HudiMaintenance(table), HudiLayout(table))

    def joined(self, joining: JoinDefinition) -> JoinedLakeTable:
        """Return a joined table; its first commit creates it."""
        _check_line()
        from lakeward.adapters.formats.shared.joined.joined_table import JoinedLakeTable  # noqa: PLC0415  # Spark is imported late

        sources = {name: self._table(dimension) for name, dimension in joining.tables.items()}
        name, table = ".".join(self.places.name(joining.joined.name)), self._table(joining.dimension)
        return JoinedLakeTable(name, joining, table, sources, self.runtime.spark)

    def _table(self, dimension: Dimension) -> HudiTable:
        from lakeward.adapters.formats.hudi.table import HudiTable  # noqa: PLC0415  # Spark is imported late

        return HudiTable(
            self.places,
            dimension,
            self.tables.get(dimension.name, TableOptions()),
            self.runtime.spark,
            self.runtime.small_batch,
            self.runtime.run_ids,
        )


def _check_line() -> None:
    """Raise SetupError if there is no Spark, or no Spark that Hudi tables are read and written with.

    A platform has its own Hudi for its Spark. A session that it started is checked when it is used
    (`session.ready`).
    """
    check_spark()
    from lakeward.adapters.spark.session.spark_session import running  # noqa: PLC0415  # Spark is imported late

    if line() != "3.5" and running() is None:
        raise SetupError(
            f"there is no Hudi for Spark {line()}",
            found="Hudi 1.2 is built for Spark 3.5",
            todo="Make a virtual environment of its own, and install `lakeward[spark-3.5,hudi]` there. Or take "
            'another `kind` under [target]: "iceberg" or "delta".',
        )
