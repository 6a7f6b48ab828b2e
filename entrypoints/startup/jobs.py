"""Builders of the jobs of tables and joined tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from lakeward.core.dimension import Dimension, TableName
from lakeward.core.joined.refresh import JoinJob, Joins
from lakeward.core.ledger.writer import LedgerWriter
from lakeward.core.pipeline.job import Job, SiblingTable
from lakeward.core.ports import (
    Adoption,
    ChangeLog,
    DirectLoads,
    Layout,
    Ledger,
    Maintenance,
    Notice,
    Opened,
    Quarantine,
    Queue,
    SmallFiles,
    Source,
    Statistics,
    Table,
    TableReader,
    Target,
    Versions,
)
from lakeward.core.schema import Schema
from lakeward.entrypoints.runtime.locks.writer_lease import WriterLease
from lakeward.entrypoints.settings.configuration import Configuration
from lakeward.entrypoints.startup.shapers import shaped
from lakeward.plugins import Runtime
from lakeward.plugins.registry import check_parts


def make_job(
    *,
    configured: Configuration,
    source: Source[Any],
    target: Target[Any],
    queue: Queue,
    ledger: Ledger,
    statistics: Statistics | None,
    runtime: Runtime,
    spark: Callable[[], Any],
    writer_lease: WriterLease | None,
    table: TableName,
    notices: Sequence[Notice] = (),
) -> Job[Any]:
    """Build the job of a table."""
    dimension = configured.dimension(table, source.lateness, source.sequences)
    shaped_source = shaped(source, configured.rules(table), spark, runtime.secret)
    ledger_writer = LedgerWriter(ledger=ledger, now=runtime.now, whole_every=configured.full_listing)
    opened = _open(target, dimension)
    return Job(
        dimension=dimension,
        source=shaped_source,
        opened=opened,
        queue=queue,
        notices=notices,
        ledger_writer=ledger_writer,
        statistics=statistics,
        read_table_state=partial(target.table_state, dimension),
        attempts=configured.settings.pipeline.commit_attempts,
        check=(lambda: None) if writer_lease is None else writer_lease.check,
        siblings=[_sibling(target, name) for name in configured.siblings_of(table)],
    )


_PARTS: Final[Mapping[str, type]] = {
    "table": Table,
    "change_log": ChangeLog,
    "quarantine": Quarantine,
    "versions": Versions,
    "maintenance": Maintenance,
    "adoption": Adoption,
    "layout": Layout,
    "reader": TableReader,
    "loads": DirectLoads,
    "small_files": SmallFiles,
}
"""The ports of an opened table."""


def _open(target: Target[Any], dimension: Dimension) -> Opened[Any]:
    """Open a table; raises PluginError if a port of it is incomplete, before the run begins."""
    opened = target.open(dimension)
    check_parts(opened, Opened, _PARTS)
    return opened


def _sibling(target: Target[Any], name: TableName) -> SiblingTable:
    return SiblingTable(str(name), partial(target.table_state, Dimension(name=name, schema=Schema(()))))


def make_join_job(
    *,
    configured: Configuration,
    source: Source[Any],
    target: Target[Any],
    runtime: Runtime,
    writer_lease: WriterLease | None,
    table: TableName,
) -> JoinJob:
    """Build the job of a joined table."""
    if not isinstance(target, Joins):
        raise LookupError(f"{table} has no lake that joins")
    joined = configured.joined[table]
    names = {source_table.table for source_table in joined.sources.values()}
    return JoinJob(
        joined=joined,
        sources={name: configured.dimension(name, source.lateness, source.sequences) for name in names},
        target=target,
        now=runtime.now,
        attempts=configured.settings.pipeline.commit_attempts,
        check=(lambda: None) if writer_lease is None else writer_lease.check,
    )


def make_joined_maintenance(
    *,
    configured: Configuration,
    source: Source[Any],
    target: Target[Any],
    writer_lease: WriterLease | None,
    table: TableName,
) -> Job[Any]:
    """Build the job that inspects and maintains a joined table, with the columns and key of its last commit."""
    bare = Dimension(name=table, schema=Schema(()), history=configured.joined[table].history)
    state = target.table_state(bare)
    dimension = replace(bare, schema=state.schema or bare.schema, key=state.progress.key or ())
    check = (lambda: None) if writer_lease is None else writer_lease.check
    return Job(dimension=dimension, source=source, opened=_open(target, dimension), check=check)
