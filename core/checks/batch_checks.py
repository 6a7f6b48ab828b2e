"""Checks of the settings, the facts and the result of a batch against its table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from lakeward.core.checks.log_restart import LOG_ALARM, FoundRestart, LogRestart, find_likely_restart, find_restarts
from lakeward.core.checks.log_steps import LogReached
from lakeward.core.dimension import SHARE_FROM, Dimension, Match, Ordered, TableName, Unreadable
from lakeward.core.errors import AlarmRaised, ConfigError, QuarantineFull, SchemaConflict, SourceError, TableError
from lakeward.core.events import Operation, Sequences
from lakeward.core.history.refusals import refuse_other_history
from lakeward.core.history.stored_options import SOFT
from lakeward.core.ledger.objects import SourceObject, digest_of
from lakeward.core.ledger.selection import ObjectHistory
from lakeward.core.merge.change_log import Reason
from lakeward.core.merge.counts import Counts
from lakeward.core.merge.facts import BatchFacts, Capability
from lakeward.core.progress import Progress
from lakeward.core.schema import Column, Schema, find_case_clash
from lakeward.core.schema_changes.evolution import SchemaChange
from lakeward.core.text.numbers import format_count

if TYPE_CHECKING:
    from lakeward.core.plan import MergePlan
    from lakeward.core.ports.tables import MergeResult

_SEQUENCES: Final[Mapping[Sequences, str]] = {
    Sequences.TIMES: "commit times, or the order of the files alone",
    Sequences.ARRIVAL: "the order of transactions",
    Sequences.PLACES: "places in the source's log",
    Sequences.UNIQUE: "unique numbers of the changes",
}


def refuse_other_options(dimension: Dimension, progress: Progress) -> None:
    """Raise SchemaConflict where settings changed that cannot change in a table that has data.

    They are: what orders its events, its key, how changes find rows, versions, and what deletes leave.
    """
    _refuse_other_sequences(dimension, progress)
    _refuse_other_key(dimension, progress)
    _refuse_other_match(dimension, progress)
    refuse_other_history(dimension, progress)
    _refuse_other_deletes(dimension, progress)


def _refuse_other_deletes(dimension: Dimension, progress: Progress) -> None:
    """Refuse to switch between soft and hard deletes: earlier deleted rows are unknown, or would seem to exist."""
    was_soft = progress.history == SOFT
    if not progress.batch or was_soft == dimension.is_soft:
        return
    stored, wanted = ("soft", "hard") if was_soft else ("hard", "soft")
    found = "rows that were deleted are in it" if was_soft else "rows that were deleted before are not known"
    raise SchemaConflict(
        f"{dimension.name}: a table whose deletes are {stored} cannot have {wanted} ones",
        found=found,
        todo=f'Nothing of the table was applied; other tables go on. Set `deletes = "{stored}"`, as it was, or '
        "drop the table and its side tables, and load it anew (docs/how-to/reload.md#dropping-a-table).",
    )


def _refuse_soft(dimension: Dimension) -> None:
    """Raise ConfigError for soft deletes in a table without a key."""
    if dimension.is_soft and not dimension.key:
        raise ConfigError(
            f"{dimension.name}: a table without a key has no deletes that could be soft",
            found='`deletes = "soft"`, and no `key`',
            todo="Nothing was applied. Name the columns that identify its rows in `key`, or set "
            '`deletes = "hard"`.',
        )


def _refuse_other_sequences(dimension: Dimension, progress: Progress) -> None:
    """Refuse sequences of another kind than those of the stored rows."""
    if progress.batch and progress.sequences is not dimension.sequences:
        raise SchemaConflict(
            f"{dimension.name}: the order of its changes cannot be made of something else",
            found=f"the table goes by {_SEQUENCES[progress.sequences]}; the settings say "
            f"{_SEQUENCES[dimension.sequences]}",
            todo="Nothing of the table was applied; other tables go on. Set `sequence_column`, `sequence_kind` and "
            "`cdc_path` under [source] as they were, or drop the table and its side tables "
            "(docs/how-to/reload.md).",
        )


def _refuse_other_key(dimension: Dimension, progress: Progress) -> None:
    """Refuse another key than the one by which rows are stored and changes remembered."""
    if not progress.batch or progress.key is None:
        return
    stored_key = tuple(dimension.policies.renames.get(name, name) for name in progress.key)
    if stored_key != dimension.key:
        stored, wanted = (", ".join(key) if key else "no column" for key in (stored_key, dimension.key))
        raise SchemaConflict(
            f"{dimension.name}: its key cannot become another",
            found=f"the table goes by {stored}; the settings say {wanted}",
            todo="Nothing of the table was applied; other tables go on. Set `key` as it was, or drop the table and "
            "its side tables (docs/how-to/reload.md).",
        )


def _refuse_other_match(dimension: Dimension, progress: Progress) -> None:
    """Refuse to switch between append-only and image match.

    Before the switch some changes would not have found their rows. Rows of another writer, as in an adopted table,
    have no positions to tell them apart.
    """
    if not progress.batch or progress.match is dimension.match:
        return
    stored, wanted = "that is append-only", "one whose changes find their rows by images"
    found = "earlier changes found no row, so the table may have rows that are gone at the source"
    put_back = "Remove `match`, as it was"
    if progress.match is Match.IMAGE:
        stored, wanted = "whose changes find their rows by images", "append-only"
        found = "its changes removed rows so far, and the next ones would find none"
        put_back = 'Set `match = "image"`, as it was'
    raise SchemaConflict(
        f"{dimension.name}: a table {stored} cannot become {wanted}",
        found=found,
        todo=f"Nothing of the table was applied; other tables go on. {put_back}, or drop the table and "
        "its side tables, and load it anew (docs/how-to/reload.md#dropping-a-table).",
    )


def refuse_batch(
    dimension: Dimension, facts: BatchFacts, delivered: frozenset[int], *, missing: frozenset[Capability]
) -> None:
    """Refuse a batch that has too many unusable rows, or that its table format or settings cannot take.

    `delivered` are the orders of its objects that were delivered before. `missing` are the capabilities that the
    batch needs and the table format does not have. Raises SourceError, QuarantineFull or ConfigError.
    """
    _refuse_unreadable(dimension, facts, delivered)
    refuse_flood(dimension, facts.rejects, facts.read - facts.skipped, example=_example(facts))
    _refuse_incapable(dimension, missing)
    _refuse_key_changes(dimension, facts)
    _refuse_soft(dimension)


def _refuse_incapable(dimension: Dimension, missing: frozenset[Capability]) -> None:
    """Raise ConfigError where the table format lacks a capability that the batch needs."""
    if missing:
        raise ConfigError(
            f"{dimension.name}: the table format cannot do what this batch needs",
            found="needed: " + ", ".join(sorted(item.value for item in missing)),
            todo="Nothing was applied. Choose a table format that declares it (`lakeward plugins`).",
        )


def refuse_covered_rows(planned: MergePlan, counts: Counts) -> None:
    """Refuse key changes in an `ordered` table whose halves count apart, where they insert rows over existing ones.

    The existing rows leave their keys later in the same transaction, and would take the new rows away.
    """
    if planned.facts.key_halves and counts.insert_on_existing and isinstance(planned.dimension.lateness, Ordered):
        raise _key_changes(planned.dimension, planned.facts)


def _refuse_key_changes(dimension: Dimension, facts: BatchFacts) -> None:
    """Refuse key changes in an `ordered` table: it forgets, between two batches, the rows that they cover."""
    if isinstance(dimension.lateness, Ordered) and Capability.KEY_CHANGE in facts.needs and dimension.key:
        raise _key_changes(dimension, facts)


def _key_changes(dimension: Dimension, facts: BatchFacts) -> ConfigError:
    """Return the error for key changes in an `ordered` table."""
    in_object = f" in {facts.objects[0].object.name}" if len(facts.objects) == 1 else ""
    return ConfigError(
        f"{dimension.name}: the key of a row changes, and the table is `ordered`",
        found=f"a key change{in_object}; a transaction may go on moving rows in the next batch",
        todo='Nothing was applied. Give the table a `lateness` that is a duration, as "24h" (files of DMS '
        "need a `timestamp_column` for it): then what a transaction has moved is remembered.",
    )


def _example(facts: BatchFacts) -> str:
    """Return, in words, the first row of the first file of which every row is refused for one reason; else ""."""
    refused = ((item.object.name, item.refusal) for item in facts.objects)
    return next(
        (f"; {name}, row {refusal.row}: {refusal.detail}" for name, refusal in refused if refusal is not None), ""
    )


def refuse_flood(dimension: Dimension, reasons: Mapping[Reason, int], read: int, *, example: str = "") -> None:
    """Raise QuarantineFull where a batch has more unusable rows than the table tolerates.

    Rows that show a change of columns do not count for `max_share`: in a file with such a change all rows may show
    it. `example` is one of the rows, in words.
    """
    rejected, tolerance = sum(reasons.values()), dimension.tolerance
    is_many = rejected > tolerance.max_rows
    unforeseen = rejected - reasons.get(Reason.SCHEMA, 0)
    is_much = read >= SHARE_FROM and unforeseen > tolerance.max_share * read
    if is_many or is_much:
        limit = f"max_rows = {tolerance.max_rows:,}" if is_many else f"max_share = {tolerance.max_share:g}"
        counts = ", ".join(f"{number:,} {reason.value}" for reason, number in reasons.items() if number)
        raise QuarantineFull(
            f"{dimension.name}: {rejected:,} of the {read:,} rows of one batch cannot be applied",
            found=f"{counts}; `{limit}` is the most that may go into quarantine{example}",
            todo="Nothing of this batch was applied; other tables go on. Is a column's type, its format or "
            "`null_text` declared wrongly? Where the files are as they should be, raise the limit under "
            f'[tables."{dimension.name}".quarantine].',
        )


def refuse_small_load(plan: MergePlan, progress: Progress, acked: Mapping[str, frozenset[str]]) -> None:
    """Raise LOAD-001 where a snapshot has too few rows compared with its table; see `Snapshots`.

    In a history the current versions are counted: others are of rows that were deleted or changed.
    """
    snapshots, facts = plan.dimension.snapshots, plan.facts
    if snapshots is None or not (plan.replaces or plan.splices):
        return
    rows, table = facts.operations.get(Operation.READ, 0), plan.dimension.name
    about = [item.object.version for item in facts.objects]
    table_rows = progress.rows if progress.current is None else progress.current
    if rows >= snapshots.least_share * table_rows or acked.get("LOAD-001", frozenset()).issuperset(about):
        return
    raise AlarmRaised(
        "LOAD-001",
        f"{table}: the full load has {format_count(rows, 'row')}, and the table {table_rows:,}",
        found=f"{format_count(len(about), 'file')}; a load with less than {snapshots.least_share:g} of the rows "
        "counts as incomplete (`least_share`)",
        todo="Nothing was applied. Is the load still being written, or was it cut off? Run again when it is "
        f"complete. If so many rows were really deleted: `lakeward ack {table} LOAD-001`.",
        about=about,
    )


def refuse_half_load(table: str, facts: BatchFacts, history: ObjectHistory) -> None:
    """Raise LOAD-002 where a full load has fewer rows than its replication task says that it wrote."""
    objects = [item.object for item in facts.objects]
    status = None if history.load is None else history.load.status
    if status is None or status.rows is None or not objects or not status.covers(objects):
        return
    about = [item.version for item in objects]
    if facts.read >= status.rows or history.acknowledged_names("LOAD-002").issuperset(about):
        return
    raise AlarmRaised(
        "LOAD-002",
        f"{table}: the full load has {format_count(facts.read, 'row')}, and its task wrote {status.rows:,}",
        found=f"{format_count(len(about), 'file')}; by the statistics of the task the load has ended",
        todo="Nothing was applied. Are all of its files here? Run again when they are. If these are all there ever "
        f"will be: `lakeward ack {table} LOAD-002`.",
        about=about,
    )


def refuse_log_restart(
    dimension: Dimension, facts: BatchFacts, reached: LogReached, acked: Sequence[LogRestart]
) -> None:
    """Raise SEQUENCE-002 where the log of the source starts over in a batch, unless an operator acknowledged it."""
    restarts = find_restarts([item.in_log for item in facts.objects], reached, acked)
    if restarts:
        raise _log_restart(dimension, restarts)


def refuse_regressions(
    planned: MergePlan, resolved: MergeResult, reached: LogReached, acked: Sequence[LogRestart]
) -> None:
    """Raise SEQUENCE-002 where a batch is stale because its log started over, and not because it is old."""
    objects, has_stale = [item.in_log for item in planned.facts.objects], resolved.counts.stale > 0
    restart = find_likely_restart(
        objects, reached, acked, regressions=resolved.log_regressions, has_stale=has_stale
    )
    if restart is not None:
        raise _log_restart(planned.dimension, [restart])


def _log_restart(dimension: Dimension, restarts: Sequence[FoundRestart]) -> AlarmRaised:
    """Return the alarm for restarts of the log."""
    name, (first, *others) = dimension.name, restarts
    more = f"; so it does in {format_count(len(others), 'other partition')}" if others else ""
    if all(restart.was_open for restart in restarts):
        return AlarmRaised(
            "SEQUENCE-002",
            f"{name}: a transaction was committed behind the snapshot, and its place does not say so",
            found=f"row {first.restart.row} of {first.object} {first.why}{more}",
            todo="Nothing of this batch was applied; other tables go on. "
            f"`lakeward ack {name} {LOG_ALARM}` lets this row, and what comes behind it, count above the snapshot. "
            "Where it is an old change that was sent again, load the table anew instead "
            "(docs/reference/alarms.md).",
            about=[restart.about for restart in restarts],
        )
    return AlarmRaised(
        "SEQUENCE-002",
        f"{name}: the log of the source starts over",
        found=f"row {first.restart.row} of {first.object} {first.why}{more}",
        todo="Nothing of this batch was applied; other tables go on. Was there a failover, a restore, a new slot, "
        f"another server? `lakeward ack {name} {LOG_ALARM}` begins a new epoch of the log at this row: what comes "
        'from there on counts above the old log. With `places = "arrival"` under [source] as well, changes are '
        f"ordered by their arrival from there on. Or load the table anew: `lakeward reload {name}`, or for "
        "messages as docs/reference/alarms.md says.",
        about=[restart.about for restart in restarts],
    )


def _refuse_unreadable(dimension: Dimension, facts: BatchFacts, delivered: frozenset[int]) -> None:
    """Raise SourceError for a row whose key cannot be read, where `unreadable` is "stop"."""
    if dimension.tolerance.unreadable is not Unreadable.STOP:
        return
    for item in facts.objects:
        if item.unreadable and item.object.order not in delivered:
            raise SourceError(
                f"{dimension.name}: {item.object.name} has {format_count(item.unreadable, 'row')} whose key "
                "cannot be read",
                found='`unreadable = "stop"` is set: it is unknown which rows they change',
                todo="Nothing of this batch was applied; other tables go on. Replace the file by a right one, or "
                'let the table become inexact with `unreadable = "inexact"`: the rows then go into quarantine.',
            )


def cannot_rename(
    dimension: Dimension, change: SchemaChange, stored: Schema | None, in_object: str
) -> SchemaConflict:
    """Return the error for a rename whose new name exists, or whose old name the source still has."""
    has_both = stored is not None and stored.find(change.path) is not None
    found = f"the table has both {change.path} and {change.to}, or two columns that would be called so"
    return SchemaConflict(
        f"{dimension.name}: the column {change.path} cannot be called {change.to}",
        found=found if has_both else f"the source still has a column {change.path}{in_object}",
        todo="Nothing of this batch was applied; other tables go on. Take the name out of `rename` under "
        f'[tables."{dimension.name}".schema] where they are two columns; where they are one, copy the values of '
        "the one into the other and drop it.",
    )


def cannot_rename_within(table: TableName, old: str, new: str | None) -> ConfigError:
    """Return the error for a rename of a field within a column: no table format can do that."""
    return ConfigError(
        f"{table}: {old} cannot be called {new}: fields within columns cannot be renamed",
        found=f"{old!r} under `schema.rename` is a path within a column",
        todo="Nothing was applied. Take it out of `rename`. The field of the new name is then a new one, NULL in "
        "the rows that are there until they change, and the old one keeps its values. Or load the table anew "
        "(docs/how-to/reload.md), as must be where the field is within a list or a map.",
    )


def refuse_names_alike(dimension: Dimension, columns: Sequence[Column]) -> None:
    """Refuse two columns, or two fields of one, that differ only in case: most readers cannot tell them apart."""
    for column in columns:
        refuse_names_alike(dimension, column.type.parts)
    both = find_case_clash(column.name for column in columns)
    if both is not None:
        raise SchemaConflict(
            f"{dimension.name}: two columns differ only in case",
            found=f"found {both[0]} and {both[1]}",
            todo="Nothing of this batch was applied; other tables go on. Bring the files back to one spelling, or "
            "give one of the columns another name where they are written.",
        )


def refuse_other_memory(dimension: Dimension, progress: Progress, remembered: Sequence[SourceObject]) -> None:
    """Raise TableError where the change log of the newest batch has other objects than the committed batch."""
    if digest_of(remembered) != progress.digest:
        raise TableError(
            f"{dimension.name}: the change log of batch {progress.batch} is not that of the committed batch",
            found=f"it has {', '.join(item.name for item in remembered) or 'no file'}, and others were applied: "
            "two processes wrote at once",
            todo="Load the table again (docs/how-to/reload.md), and let one process at a time run the pipeline: is "
            "the folder `state` of its settings shared, and kept?",
        )
