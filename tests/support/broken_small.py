"""Mistakes in how the core resolves small batches, by the law of the kit that must show them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from broken_ports import AnyTable, patched, wrapped
from broken_tables import Draw
from pyroaring import BitMap64

from lakeward.adapters.formats.iceberg.writes import local_files
from lakeward.adapters.formats.shared.side_tables.side_table_pair import SideTables
from lakeward.adapters.formats.shared.small_batches import (
    change_log_entries,
    changed_rows,
    settled_batch,
    stored_rows,
)
from lakeward.adapters.formats.shared.small_batches.batch import SmallBatch, read_batch
from lakeward.adapters.formats.shared.small_batches.change_log_entries import Entries
from lakeward.adapters.formats.shared.small_batches.change_log_reader import _Entries, read_change_log
from lakeward.adapters.formats.shared.small_batches.settled_batch import SettledBatch
from lakeward.adapters.formats.shared.small_batches.stored_rows import StoredRows
from lakeward.adapters.formats.shared.small_batches.version_rows import VersionWriter
from lakeward.core.dimension import Dimension
from lakeward.core.events import Cell, ChangeEvent, Key, Operation
from lakeward.core.history.surrogate_numbers import Numbers, assign_numbers
from lakeward.core.history.versions import Versions
from lakeward.core.merge.append import append
from lakeward.core.merge.change_log import BaseRow, Change, ChangeLogContents
from lakeward.core.merge.delivery import Delivery, DeliveryResult
from lakeward.core.plan import MergePlan


def _reads(wrongly: Any) -> Any:
    """Return a `spoil` that changes a batch after it is read."""
    return patched(settled_batch, "read_batch", lambda rows, plan: wrongly(read_batch(rows, plan), rows))


def _remembers(is_known: Callable[[Change], bool]) -> Any:
    """Return a `spoil` that reads only these changes from the change log."""
    return wrapped(_Entries, "changes", lambda changes: lambda self, keys: filter(is_known, changes(self, keys)))


class ReadsABatchWithoutItsLastEvent(AnyTable):
    """Drops the last event."""

    spoil = _reads(lambda batch, _rows: replace(batch, events=batch.events[:-1]))


def _with_rejects(batch: SmallBatch, rows: Any) -> SmallBatch:
    columns = {name: rows[name].to_pylist() for name in rows.column_names if not name.startswith("_")}
    events = [
        ChangeEvent(
            operation=Operation.UPDATE,
            position=reject.position,
            key=reject.keys[-1],
            cells={name: values[batch.places[reject.position]] for name, values in columns.items()},
            time=reject.time,
        )
        for reject in batch.rejects
        if reject.keys
    ]
    others = [reject for reject in batch.rejects if not reject.keys]
    return replace(batch, events=[*batch.events, *events], rejects=others)


class TakesARejectForAnEvent(AnyTable):
    """Applies the readable cells of a rejected row."""

    spoil = _reads(_with_rejects)


class ForgetsRememberedDeletes(AnyTable):
    """Ignores remembered deletes."""

    spoil = _remembers(lambda change: change.event.operation is not Operation.DELETE)


class ForgetsTruncates(AnyTable):
    """Ignores remembered truncates."""

    spoil = _remembers(lambda change: change.event.operation is not Operation.TRUNCATE)


class ForgetsWaitingEvents(AnyTable):
    """Ignores waiting events."""

    spoil = _remembers(lambda change: not change.waiting)


class ForgetsBases(AnyTable):
    """Ignores base rows."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        bases = _Entries.bases

        def wrongly(self: _Entries, keys: Collection[Key], changes: Iterable[Change]) -> dict[Key, BaseRow]:
            return {key: replace(base, row=None) for key, base in bases(self, keys, changes).items()}

        patch.setattr(_Entries, "bases", wrongly)


class JoinsNoKeys(AnyTable):
    """Does not read keys that are linked to those of a batch by key changes."""

    spoil = patched(_Entries, "linked", lambda _self, touched: frozenset(touched))


class AppliesCopies(AnyTable):
    """Ignores applied objects and remembered deletes."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        def wrongly(
            side_tables: SideTables, plan: MergePlan, touched: Collection[Key]
        ) -> tuple[ChangeLogContents, frozenset[Key]]:
            memory, keys = read_change_log(side_tables, plan, touched)
            return replace(memory, records=[], changes={}), keys

        patch.setattr(settled_batch, "read_change_log", wrongly)


class AppendsRepeatedObjects(AnyTable):
    """Adds rows of repeated objects to a table without a key."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        def wrongly(
            dimension: Dimension, rows: Any, memory: ChangeLogContents, delivery: Delivery
        ) -> DeliveryResult:
            return append(dimension, rows, replace(memory, records=[]), delivery)

        patch.setattr(settled_batch, "append", wrongly)


class LosesRepairedRowsWithoutAKey(AnyTable):
    """Discards repaired rows of a table without a key."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        def wrongly(
            dimension: Dimension, rows: Any, memory: ChangeLogContents, delivery: Delivery
        ) -> DeliveryResult:
            given_up = [replace(resolution, repaired=None) for resolution in delivery.resolutions]
            return append(dimension, rows, memory, replace(delivery, resolutions=given_up))

        patch.setattr(settled_batch, "append", wrongly)


class FindsNoStoredRow(AnyTable):
    """Finds no stored rows."""

    spoil = patched(settled_batch, "find_rows", lambda *_, **__: StoredRows())


class FindsDeletedRows(AnyTable):
    """Reads data files without their deletes."""

    spoil = patched(local_files, "_deleted", lambda *_: BitMap64())


class ReadsTheFirstFileAlone(AnyTable):
    """Reads only one data file of a table."""

    spoil = wrapped(local_files, "_stored", lambda stored: lambda *args: (stored(*args) or [])[:1])


class LosesTheSecondPlaceOfAKey(AnyTable):
    """Removes only one of the stored rows of a key."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        by_key = stored_rows._by_key

        def wrongly(found: Any, plan: MergePlan, *, with_cells: bool) -> StoredRows:
            stored = by_key(found, plan, with_cells=with_cells)
            return replace(stored, indices={key: own[-1:] for key, own in stored.indices.items()})

        patch.setattr(stored_rows, "_by_key", wrongly)


class RemembersUnsentCellsAsNull(AnyTable):
    """Remembers unsent cells as NULL."""

    spoil = patched(change_log_entries, "unset_paths", lambda _column, _value: [])


class RemembersNoWaitingEvents(AnyTable):
    """Writes no entries for waiting events."""

    spoil = patched(Entries, "add_waiting", lambda _self, _events: None)


class LeavesRowsBelowATruncate(AnyTable):
    """Truncates only rows with other events in the batch."""

    spoil = patched(SettledBatch, "truncates_others", False)


class NumbersVersionsAnew(AnyTable):
    """Gives new numbers to all versions of the keys of a batch."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        def anew(columns: Any, _had: Any, before: Any, after: Any, highest: int) -> Numbers:
            return assign_numbers(columns, {}, dict.fromkeys(before, ()), after, highest)

        patch.setattr(changed_rows, "assign_numbers", anew)


class DropsSupersededVersions(AnyTable):
    """Removes superseded knowledge, like a history without it."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        believed = VersionWriter._known_rows

        def now(
            self: VersionWriter, key: Key, versions: Versions, stored: Sequence[Mapping[str, Any]]
        ) -> Iterator[dict[str, Cell]]:
            name = self.history.validity_columns.known_to
            return (row for row in believed(self, key, versions, stored) if row[name] is None)

        patch.setattr(VersionWriter, "_known_rows", now)


_IN_PART = "partial_rows_and_key_changes_give_the_rows_of_the_source"
_WAITS = "a_row_that_cannot_be_applied_holds_its_key"

BY_LAW: Mapping[str, Sequence[type[AnyTable]]] = {
    "an_update_replaces_a_row": (FindsNoStoredRow,),
    "any_delivery_gives_the_rows_of_the_source": (FindsDeletedRows, ReadsTheFirstFileAlone),
    "the_last_change_of_a_key_wins": (ReadsABatchWithoutItsLastEvent,),
    "an_object_delivered_again_changes_nothing": (AppliesCopies, AppendsRepeatedObjects),
    "a_table_without_a_key_has_each_event_once": (LosesRepairedRowsWithoutAKey,),
    "a_late_change_overwrites_nothing_newer": (ForgetsRememberedDeletes,),
    "a_truncate_removes_every_older_row": (LeavesRowsBelowATruncate,),
    _WAITS: (TakesARejectForAnEvent, ForgetsWaitingEvents, RemembersNoWaitingEvents),
    _IN_PART: (RemembersUnsentCellsAsNull, JoinsNoKeys),
    "any_order_and_any_crash_give_the_same_history": (LosesTheSecondPlaceOfAKey, ForgetsBases),
    "corpus_truncate": (ForgetsTruncates,),
    "a_version_keeps_its_number": (NumbersVersionsAnew,),
    "recorded_versions_are_not_rewritten": (DropsSupersededVersions,),
}
"""Mistakes by the law of the conformance kit that shows them."""

LONG = frozenset({ForgetsBases, JoinsNoKeys, NumbersVersionsAnew})
"""Mistakes that are slow to show. The others need a few batches."""

DRAWS: Mapping[type[AnyTable], Draw] = {ForgetsBases: Draw(seed=14, case="by the day of a late run")}
"""Draws of mistakes that the draw of their law does not show."""
