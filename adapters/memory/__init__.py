"""The reference adapter: a source, a lake, a queue, a ledger, a lease and statistics in plain Python.

It does exactly what the core defines, and tests can read its state. Other adapters must give the same results, and
fast tests use it by default.
"""

from __future__ import annotations

from lakeward.adapters.memory.lease import MemoryLease
from lakeward.adapters.memory.ledger import MemoryLedger
from lakeward.adapters.memory.queue import MemoryQueue
from lakeward.adapters.memory.source import Frame, MemorySource, event_of, facts_of
from lakeward.adapters.memory.statistics import MemoryStatistics
from lakeward.adapters.memory.table import MemoryTable, MemoryTarget
from lakeward.plugins import Options, Registry, Runtime, hookimpl

__all__ = [
    "Frame",
    "MemoryLease",
    "MemoryLedger",
    "MemoryQueue",
    "MemorySource",
    "MemoryStatistics",
    "MemoryTable",
    "MemoryTarget",
    "event_of",
    "facts_of",
]


def build_source(options: Options, runtime: Runtime) -> MemorySource:
    """Build an empty source."""
    return MemorySource(now=runtime.now)


def build_target(options: Options, runtime: Runtime) -> MemoryTarget:
    """Build an empty lake."""
    return MemoryTarget()


def build_queue(options: Options, runtime: Runtime) -> MemoryQueue:
    """Build an empty queue."""
    return MemoryQueue()


def build_ledger(options: Options, runtime: Runtime) -> MemoryLedger:
    """Build an empty ledger."""
    return MemoryLedger()


def build_lease(options: Options, runtime: Runtime) -> MemoryLease:
    """Build leases that nobody holds."""
    return MemoryLease(runtime.now)


def build_statistics(options: Options, runtime: Runtime) -> MemoryStatistics:
    """Build statistics without any loads."""
    return MemoryStatistics()


@hookimpl
def register(registry: Registry) -> None:
    """Register `memory` as source, table format, queue, ledger, lease and kind of statistics."""
    registry.sources.add("memory", build_source)
    registry.formats.add("memory", build_target)
    registry.queues.add("memory", build_queue)
    registry.ledgers.add("memory", build_ledger)
    registry.leases.add("memory", build_lease)
    registry.statistics.add("memory", build_statistics)
