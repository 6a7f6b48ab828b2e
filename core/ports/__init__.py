"""What the core asks of the world: small protocols, generic in the frame, by what they are about."""

from lakeward.core.ports.beside import Ack, Companion, Recalled, Word
from lakeward.core.ports.frames import Batch
from lakeward.core.ports.lakes import Opened, Target
from lakeward.core.ports.quarantine import Cells, Entry, Mended, Quarantine, Written
from lakeward.core.ports.reading import Reading, Sample, Selection, SourceDatabase, SourceSnapshot, Verification
from lakeward.core.ports.running import EXTEND_EVERY, Lease, Ledger, Notice, Queue, Secrets, Term
from lakeward.core.ports.settings import SettingsStore
from lakeward.core.ports.sources import (
    Backlog,
    Landing,
    Scout,
    Source,
    SourceCatalogue,
    Statistics,
    Store,
    Stored,
    Stray,
    Strays,
)
from lakeward.core.ports.tables import Commit, DirectLoads, Left, Resolved, Standing, Table
from lakeward.core.ports.upkeep import (
    Adoption,
    Care,
    Cared,
    Foreign,
    Layout,
    LayoutChange,
    Maintenance,
    Undone,
    Version,
    Versions,
)

__all__ = [
    "EXTEND_EVERY",
    "Ack",
    "Adoption",
    "Backlog",
    "Batch",
    "Care",
    "Cared",
    "Cells",
    "Commit",
    "Companion",
    "DirectLoads",
    "Entry",
    "Foreign",
    "Landing",
    "Layout",
    "LayoutChange",
    "Lease",
    "Ledger",
    "Left",
    "Maintenance",
    "Mended",
    "Notice",
    "Opened",
    "Quarantine",
    "Queue",
    "Reading",
    "Recalled",
    "Resolved",
    "Sample",
    "Scout",
    "Secrets",
    "Selection",
    "SettingsStore",
    "Source",
    "SourceCatalogue",
    "SourceDatabase",
    "SourceSnapshot",
    "Standing",
    "Statistics",
    "Store",
    "Stored",
    "Stray",
    "Strays",
    "Table",
    "Target",
    "Term",
    "Undone",
    "Verification",
    "Version",
    "Versions",
    "Word",
    "Written",
]
