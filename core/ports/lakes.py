"""The lake: the tables of one format, and the ports of each opened table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol

from lakeward.core.dimension import Dimension
from lakeward.core.events import Key
from lakeward.core.operations.key_state import KeyState
from lakeward.core.ports.change_log import ChangeLog
from lakeward.core.ports.frames import F
from lakeward.core.ports.operations import Adoption, Layout, Maintenance, SmallFiles, Versions
from lakeward.core.ports.quarantine import Quarantine
from lakeward.core.ports.reading import TableReader
from lakeward.core.ports.tables import DirectLoads, Table, TableState
from lakeward.core.schema_changes.evolution import RecordedChange


@dataclass(frozen=True, slots=True)
class Opened(Generic[F]):
    """The ports of one opened table. `name` is the name of the table in the lake.

    Every format has `table`, `change_log` and `quarantine`. The others are None if the format cannot do it:

    - `versions`: roll the table back to an earlier commit.
    - `maintenance`: compact files, expire snapshots and remove orphaned files.
    - `adoption`: continue a table that another engine wrote.
    - `layout`: change table options of a table that has rows.
    - `reader`: read the whole table, for `verify` and `as-of`.
    - `loads`: write a full load while it is read.
    - `small_files`: merge small files between two batches.

    `parts` are the unquoted parts of the name that SQL engines use. If empty, they are the schema and the table of
    the source.
    """

    name: str
    table: Table[F]
    change_log: ChangeLog
    quarantine: Quarantine[F]
    versions: Versions | None = None
    maintenance: Maintenance | None = None
    adoption: Adoption | None = None
    layout: Layout | None = None
    reader: TableReader[F] | None = None
    loads: DirectLoads[F] | None = None
    small_files: SmallFiles | None = None
    parts: Sequence[str] = ()


class Target(Protocol[F]):
    """A lake: the tables of one format under one catalog."""

    def table_state(self, dimension: Dimension) -> TableState:
        """Return the state of a table as of its last commit. Opens no table and starts no engine."""
        ...

    def schema_changes(self, dimension: Dimension) -> Sequence[RecordedChange]:
        """Return the schema changes of a table in the order in which they happened. Starts no engine."""
        ...

    def key_state(self, dimension: Dimension, key: Key) -> KeyState:
        """Return all that is known of one key as of the last commit of its table. Starts no engine."""
        ...

    def open(self, dimension: Dimension) -> Opened[F]:
        """Return the ports of the table of a dimension. The table need not exist yet."""
        ...
