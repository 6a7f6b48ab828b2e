"""Verification of one table against the database of its source: what is asked of whom, and what of it is kept."""

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
from lakeward.core.ports import Ledger, SourceDatabase, TableState, Verification
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
    """How the source of a table is asked: the database, what it calls the table, and how names of columns change.

    `rules` are those of the table; names of columns at the source are `spelled` by the feed, which `is_debezium`
    where its values are those of a connector of Debezium.
    """

    database: SourceDatabase[F]
    table: TableName
    rules: TableRules
    spelled: Callable[[str], str] = str
    is_debezium: bool = False


def verify_against_source(
    job: Job[F], access: SourceAccess[F], ledger: Ledger, waiting: WaitPolicy
) -> SourceVerification:
    """Compare a table with its source, judge, and keep the verdict in the ledger; no table is changed.

    Raises ConfigError for a table that cannot be compared, TableError where it cannot be read, and SourceError or
    StoreUnreachable where the source cannot.
    """
    name = job.dimension.name
    standing = job.opened.table.standing()
    verification = _verification(job, standing)
    source = access.database.describe(access.table)
    if source is None:
        raise ConfigError(
            f"{name}: the database has no such table",
            found=f"it is asked for {access.table}",
            todo=f'Say what it is called there: `name` under [tables."{name}".catalogue], or `reads` where that is '
            "its name in the feed, too; and may the user see it?",
        )
    dimension = _as_it_stands(job.dimension, standing)
    form, spelled = _form(access, source), access.spelled
    columns = match_columns(dimension, form, source, spelled, is_debezium=access.is_debezium)
    account = ledger.account(str(name))
    is_lifted = bool(account.acked.get(LOG_ALARM))

    def passes(place: SourcePlace) -> bool | None:
        return has_passed(job.opened.table.standing().progress, place, is_lifted=is_lifted)

    def compare(among: frozenset[str] | None) -> SourceComparison:
        progress = job.opened.table.standing().progress
        at = waiting.now()
        with access.database.snapshot(source, columns) as snapshot:
            found = verification.compare(snapshot.rows, columns, among)
            ends = snapshot.place()
        return SourceComparison(
            at=at,
            begins=snapshot.begins,
            ends=ends,
            found=found,
            has_passed=lambda place: has_passed(progress, place, is_lifted=is_lifted),
        )

    result = verify(compare, columns, passes, account.verdict, waiting)
    ledger.write(str(name), Notes(verdict=result.verdict))
    return result


def _form(access: SourceAccess[F], source: SourceTable) -> Shape:
    """Return what rules make of the columns that the source delivers: those that are declared, else all."""
    rules = access.rules
    columns = [Column(access.spelled(one.name), one.type) for one in source.columns if one.type is not None]
    return rules.shape(Schema(tuple(columns)) if rules.columns and not len(rules.source) else Schema(()))


def _verification(job: Job[F], standing: TableState) -> Verification[F]:
    """Return what compares the rows of a table; raises ConfigError where there is nothing to compare."""
    dimension, progress = job.dimension, standing.progress
    refuse_other_history(dimension, progress)
    if not progress.batch or standing.schema is None:
        raise ConfigError(
            f"{dimension.name}: nothing was applied to the table yet",
            todo="`lakeward run` does that; then compare it with its source.",
        )
    if job.opened.verification is None:
        raise ConfigError(
            f"{dimension.name} cannot be compared with its source",
            found="its table format does not look at a table whole",
            todo="Compare it with the tools of the format.",
        )
    return job.opened.verification


def _as_it_stands(dimension: Dimension, standing: TableState) -> Dimension:
    """Return a dimension with the columns of the source that its table has, by their names of now."""
    found = with_new_names(standing.schema or dimension.schema, dimension.policies.renames)
    own = Schema(tuple(column for column in found if not column.name.startswith(SYSTEM_PREFIX)))
    return replace(dimension, schema=own)
