"""A lake: tables of one format, each with all that belongs to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, Protocol

from lakeward.core.dimension import Dimension
from lakeward.core.events import Key
from lakeward.core.operations.key_state import Known
from lakeward.core.ports.beside import ChangeLog
from lakeward.core.ports.frames import F
from lakeward.core.ports.quarantine import Quarantine
from lakeward.core.ports.reading import Reading, Verification
from lakeward.core.ports.tables import DirectLoads, Table, TableState
from lakeward.core.ports.upkeep import Adoption, Layout, Maintenance, Versions
from lakeward.core.schema_changes.evolution import Recorded


@dataclass(frozen=True, slots=True)
class Opened(Generic[F]):
    """One table of a target by its name there, with what it remembers and what it could not apply.

    `versions` and `maintenance` are there where its format can take it back, and keep it in shape; `adoption`
    where it can take over a table of another engine, `layout` where it can change how a table with rows is made,
    `verification` and `reading` where it can look at a table whole, and read it, `loads` where it can write a full
    load as it is read. `parts` are those of the name by
    which an engine asks for it, each as it is; where there are none, they are schema and table of the source.
    """

    name: str
    table: Table[F]
    change_log: ChangeLog
    quarantine: Quarantine[F]
    versions: Versions | None = None
    maintenance: Maintenance | None = None
    adoption: Adoption | None = None
    layout: Layout | None = None
    verification: Verification[F] | None = None
    reading: Reading | None = None
    loads: DirectLoads[F] | None = None
    parts: Sequence[str] = ()


class Target(Protocol[F]):
    """A lake: tables of one format under one catalog."""

    def standing(self, dimension: Dimension) -> TableState:
        """Return how far a table is; it is not opened, and no engine is started."""
        ...

    def schema_changes(self, dimension: Dimension) -> Sequence[Recorded]:
        """Return how the columns of a table changed, in order; no engine is started."""
        ...

    def known(self, dimension: Dimension, key: Key) -> Known:
        """Return all that is known of one key, as of the table's last commit; no engine is started."""
        ...

    def open(self, dimension: Dimension) -> Opened[F]:
        """Return the table that keeps this dimension; it need not exist yet."""
        ...
