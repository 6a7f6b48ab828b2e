"""Verify one table against the database of its source, and store the verdict."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

from lakeward.core.checks.log_restart import LOG_ALARM
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import ConfigError
from lakeward.core.history.refusals import refuse_other_history
from lakeward.core.ledger.objects import Notes
from lakeward.core.pipeline.job import Job
from lakeward.core.ports import Ledger, SourceDatabase, TableReader, TableState
from lakeward.core.schema import Column, Schema
from lakeward.core.schema_changes.evolution import with_new_names
from lakeward.core.settings.source_catalogue import SourceTable
from lakeward.core.shaping.shape import SYSTEM_PREFIX, Shape
from lakeward.core.shaping.shaped_source import TableRules
from lakeward.core.verification.compared_columns import match_columns
from lakeward.core.verification.source_places import SourcePlace, has_passed
from lakeward.core.verification.source_verification import SourceComparison, SourceVerification, WaitPolicy, verify

F = TypeVar("F")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceAccess(Generic[F]):
    """How to reach the source of a table: the database, and the name of the table there.

    `rules` are those of the table. `spelled` turns the name of a column at the source into its name in the feed.
    `is_debezium` is True where a connector of Debezium wrote the values of the feed.
    """

    database: SourceDatabase[F]
    table: TableName
    rules: TableRules
    spelled: Callable[[str], str] = str
    is_debezium: bool = False


def verify_against_source(
    job: Job[F], access: SourceAccess[F], ledger: Ledger, waiting: WaitPolicy
) -> SourceVerification:
    """Compare a table with its source and store the verdict in the ledger; no table is changed.

    Raises ConfigError for a table that cannot be compared, TableError where it cannot be read, and SourceError or
    StoreUnreachable where the source cannot be read.
    """
    name = job.dimension.name
    state = job.opened.table.state()
    reader = _reader_of(job, state)
    source = _described_source(name, access)
    dimension = _dimension_as_stored(job.dimension, state)
    shape, spelled = _shape(access, source), access.spelled
    columns = match_columns(dimension, shape, source, spelled, is_debezium=access.is_debezium)
    account = ledger.account(str(name))
    is_lifted = bool(account.acknowledged.get(LOG_ALARM))

    def passes(place: SourcePlace) -> bool | None:
        return has_passed(job.opened.table.state().progress, place, is_lifted=is_lifted)

    def compare(among: frozenset[str] | None) -> SourceComparison:
        progress = job.opened.table.state().progress
        at = waiting.now()
        with access.database.snapshot(source, columns) as snapshot:
            comparison = reader.compare(snapshot.rows, columns, among)
            ends = snapshot.place()
        return SourceComparison(
            at=at,
            begins=snapshot.begins,
            ends=ends,
            comparison=comparison,
            has_passed=lambda place: has_passed(progress, place, is_lifted=is_lifted),
        )

    result = verify(compare, columns, passes, account.verdict, waiting)
    ledger.write(str(name), Notes(verdict=result.verdict))
    return result


def _described_source(name: TableName, access: SourceAccess[F]) -> SourceTable:
    """Return the table of the source as its database describes it; raises ConfigError if there is none."""
    source = access.database.describe(access.table)
    if source is None:
        raise ConfigError(
            f"{name}: the database has no table {access.table}",
            todo=f'Set its name there as `name` under [tables."{name}".catalogue], or as `reads` if the feed has '
            "that name as well. Check that the user of the database may see it.",
        )
    return source


def _shape(access: SourceAccess[F], source: SourceTable) -> Shape:
    """Return the shape that the rules make of the columns that the source delivers: the declared ones, else all."""
    rules = access.rules
    columns = [
        Column(access.spelled(column.name), column.type) for column in source.columns if column.type is not None
    ]
    return rules.shape(Schema(tuple(columns)) if rules.columns and not len(rules.source) else Schema(()))


def _reader_of(job: Job[F], state: TableState) -> TableReader[F]:
    """Return what compares the rows of a table; raises ConfigError where there is nothing to compare."""
    dimension, progress = job.dimension, state.progress
    refuse_other_history(dimension, progress)
    if not progress.batch or state.schema is None:
        raise ConfigError(
            f"{dimension.name}: nothing was applied to the table yet",
            todo="`lakeward run` does that; then compare it with its source.",
        )
    if job.opened.reader is None:
        raise ConfigError(
            f"{dimension.name} cannot be compared with its source",
            found="its table format does not look at a table whole",
            todo="Compare it with the tools of the format.",
        )
    return job.opened.reader


def _dimension_as_stored(dimension: Dimension, state: TableState) -> Dimension:
    """Return a dimension with the source columns that its table has, by their current names."""
    columns = with_new_names(state.schema or dimension.schema, dimension.policies.renames)
    source_columns = Schema(tuple(column for column in columns if not column.name.startswith(SYSTEM_PREFIX)))
    return replace(dimension, schema=source_columns)
