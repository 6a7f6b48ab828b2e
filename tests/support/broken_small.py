"""Mistakes that the core's way of a small batch could make, by the law of the kit that must show them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from broken_ports import Whole
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


def _read(patch: pytest.MonkeyPatch, wrongly: Any) -> None:
    """Let a batch be read as something else."""
    patch.setattr(settled_batch, "read_batch", lambda rows, plan: wrongly(read_batch(rows, plan), rows))


def _remembered(patch: pytest.MonkeyPatch, is_known: Any) -> None:
    """Let only these changes be remembered."""
    changes = _Entries.changes

    def known(self: _Entries, keys: Collection[Key]) -> Iterator[Change]:
        return (change for change in changes(self, keys) if is_known(change))

    patch.setattr(_Entries, "changes", known)


class ReadsABatchWithoutItsLastEvent(Whole):
    """Leaves out the event that arrived last."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Read it so."""
        _read(patch, lambda batch, _rows: replace(batch, events=batch.events[:-1]))


class TakesARejectForAnEvent(Whole):
    """Applies of a row that cannot be applied what could be read of it."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Read updates in the place of rejects."""

        def wrongly(batch: SmallBatch, rows: Any) -> SmallBatch:
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

        _read(patch, wrongly)


class ForgetsRememberedDeletes(Whole):
    """Remembers of a key what was written, and not that it went."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Recall no delete."""
        _remembered(patch, lambda change: change.event.operation is not Operation.DELETE)


class ForgetsTruncates(Whole):
    """Takes an event that is older than a truncate before it for new."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Recall no truncate."""
        _remembered(patch, lambda change: change.event.operation is not Operation.TRUNCATE)


class ForgetsWhatWaits(Whole):
    """Does not know which events wait behind a row that cannot be applied."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Recall none that waits."""
        _remembered(patch, lambda change: not change.waiting)


class ForgetsBases(Whole):
    """Does not know the rows before the first remembered events of keys."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Recall that there was none."""
        bases = _Entries.bases

        def wrongly(self: _Entries, keys: Collection[Key], changes: Iterable[Change]) -> dict[Key, BaseRow]:
            return {key: replace(base, row=None) for key, base in bases(self, keys, changes).items()}

        patch.setattr(_Entries, "bases", wrongly)


class JoinsNoKeys(Whole):
    """Does not look at the keys that key changes link to those of a batch."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Join none."""
        patch.setattr(_Entries, "linked", lambda _self, touched: frozenset(touched))


class TakesCopiesForNews(Whole):
    """Does not know which objects and which deletes came before."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Recall none."""

        def wrongly(
            kept: SideTables, plan: MergePlan, touched: Collection[Key]
        ) -> tuple[ChangeLogContents, frozenset[Key]]:
            memory, keys = read_change_log(kept, plan, touched)
            return replace(memory, records=[], changes={}), keys

        patch.setattr(settled_batch, "read_change_log", wrongly)


class AddsFactsOfAnObjectAgain(Whole):
    """Adds rows to a table without a key whenever their object comes."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Append without a memory of objects."""

        def wrongly(
            dimension: Dimension, rows: Any, memory: ChangeLogContents, delivery: Delivery
        ) -> DeliveryResult:
            return append(dimension, rows, replace(memory, records=[]), delivery)

        patch.setattr(settled_batch, "append", wrongly)


class LosesMendedRowsWithoutAKey(Whole):
    """Takes a mended row of a table without a key for one that was given up."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Append without what was mended."""

        def wrongly(
            dimension: Dimension, rows: Any, memory: ChangeLogContents, delivery: Delivery
        ) -> DeliveryResult:
            given_up = [replace(resolution, repaired=None) for resolution in delivery.resolutions]
            return append(dimension, rows, memory, replace(delivery, resolutions=given_up))

        patch.setattr(settled_batch, "append", wrongly)


class FindsNoStoredRow(Whole):
    """Takes every key for a new one."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Find nothing."""
        patch.setattr(settled_batch, "find_rows", lambda *_, **__: StoredRows())


class FindsRowsThatWereDeleted(Whole):
    """Reads the data files of a table without what was deleted of them."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Know no deleted row."""
        patch.setattr(local_files, "_deleted", lambda *_: BitMap64())


class ReadsTheFirstFileAlone(Whole):
    """Looks for keys in one data file of a table."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Read that of all files."""
        stored = local_files._stored
        patch.setattr(local_files, "_stored", lambda *args: (stored(*args) or [])[:1])


class LosesTheSecondPlaceOfAKey(Whole):
    """Takes away one of the stored rows of a key alone."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Know one place of each key."""
        by_key = stored_rows._by_key

        def wrongly(found: Any, plan: MergePlan, *, with_cells: bool) -> StoredRows:
            stored = by_key(found, plan, with_cells=with_cells)
            return replace(stored, indices={key: own[-1:] for key, own in stored.indices.items()})

        patch.setattr(stored_rows, "_by_key", wrongly)


class RemembersWhatWasNotSentAsNull(Whole):
    """Remembers cells that were not sent as NULL."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Write down no path."""
        patch.setattr(change_log_entries, "unset_paths", lambda _column, _value: [])


class RemembersNothingThatWaits(Whole):
    """Writes no entries for events that wait."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Add none."""
        patch.setattr(Entries, "add_waiting", lambda _self, _events: None)


class LeavesRowsBelowATruncate(Whole):
    """Takes away of the rows below a truncate those that the batch touches alone."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Truncate no others."""
        patch.setattr(SettledBatch, "truncates_others", False)


class NumbersVersionsAnew(Whole):
    """Gives each version of a key that a batch touches a number of its own."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Know of no number that a version had."""

        def anew(columns: Any, _had: Any, before: Any, after: Any, highest: int) -> Numbers:
            return assign_numbers(columns, {}, dict.fromkeys(before, ()), after, highest)

        patch.setattr(changed_rows, "assign_numbers", anew)


class DropsWhatWasBelieved(Whole):
    """Takes away what a batch finds to be otherwise, as a history does that keeps no more."""

    @classmethod
    def spoil(cls, patch: pytest.MonkeyPatch) -> None:
        """Show what is believed now alone."""
        believed = VersionWriter._known_rows

        def now(
            self: VersionWriter, key: Key, versions: Versions, stored: Sequence[Mapping[str, Any]]
        ) -> Iterator[dict[str, Cell]]:
            name = self.history.shown.known_to
            return (row for row in believed(self, key, versions, stored) if row[name] is None)

        patch.setattr(VersionWriter, "_known_rows", now)


_IN_PART = "rows_that_are_sent_in_part_and_keys_that_change_give_their_databases"
_WAITS = "a_row_that_cannot_be_applied_holds_its_key"

BY_LAW: Mapping[str, Sequence[type[Whole]]] = {
    "an_update_takes_the_place_of_a_row": (FindsNoStoredRow,),
    "any_delivery_of_many_histories_gives_their_databases": (FindsRowsThatWereDeleted, ReadsTheFirstFileAlone),
    "the_last_of_several_changes_of_a_key_stands": (ReadsABatchWithoutItsLastEvent,),
    "an_object_that_comes_again_changes_nothing": (TakesCopiesForNews, AddsFactsOfAnObjectAgain),
    "a_table_without_a_key_keeps_each_fact_once": (LosesMendedRowsWithoutAKey,),
    "a_late_change_overwrites_nothing_that_is_newer": (ForgetsRememberedDeletes,),
    "a_truncate_takes_every_older_row_away": (LeavesRowsBelowATruncate,),
    _WAITS: (TakesARejectForAnEvent, ForgetsWhatWaits, RemembersNothingThatWaits),
    _IN_PART: (RemembersWhatWasNotSentAsNull, JoinsNoKeys),
    "any_order_and_any_crash_give_the_one_history": (LosesTheSecondPlaceOfAKey, ForgetsBases),
    "corpus_truncate": (ForgetsTruncates,),
    "a_version_keeps_its_number": (NumbersVersionsAnew,),
    "what_was_known_is_not_rewritten": (DropsWhatWasBelieved,),
}
"""Mistakes by the law of the conformance kit that shows them."""

LONG = frozenset({ForgetsBases, JoinsNoKeys, NumbersVersionsAnew})
"""Mistakes that take long to show; the others do within a few batches."""

DRAWS: Mapping[type[Whole], Draw] = {ForgetsBases: Draw(seed=14, case="by the day of a late run")}
"""Where the draw of its law does not show a mistake."""
