"""Mistakes in how the core resolves small batches, by the law of the kit that must show them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from broken_ports import AnyTable, mutate_table
from broken_tables import Draw
from mutations import Method, patched, skip, wrapped
from pyroaring import BitMap64

from lakeward.adapters.formats.iceberg.writes import local_files
from lakeward.adapters.formats.shared.small_batches import (
    change_log_entries,
    changed_rows,
    settled_batch,
    stored_rows,
)
from lakeward.adapters.formats.shared.small_batches.batch import SmallBatch
from lakeward.adapters.formats.shared.small_batches.change_log_entries import Entries
from lakeward.adapters.formats.shared.small_batches.change_log_reader import _Entries
from lakeward.adapters.formats.shared.small_batches.settled_batch import SettledBatch
from lakeward.adapters.formats.shared.small_batches.stored_rows import StoredRows
from lakeward.adapters.formats.shared.small_batches.version_rows import VersionWriter
from lakeward.core.events import Cell, ChangeEvent, Operation
from lakeward.core.history.surrogate_numbers import Numbers, assign_numbers
from lakeward.core.merge.change_log import Change
from lakeward.core.merge.delivery import Delivery


def _remembers(is_known: Callable[[Change], bool]) -> Any:
    """Return a `spoil` that reads only these changes from the change log."""
    return wrapped(_Entries, "changes", lambda changes, self, keys: filter(is_known, changes(self, keys)))


def _read_rejects_as_events(read_batch: Method, rows: Any, *plan: Any) -> SmallBatch:
    batch = read_batch(rows, *plan)
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


def _read_batch_without_last(read_batch: Method, *of: Any) -> SmallBatch:
    batch = read_batch(*of)
    return replace(batch, events=batch.events[:-1])


def _read_change_log_without_changes(read_change_log: Method, *of: Any) -> Any:
    memory, keys = read_change_log(*of)
    return replace(memory, records=[], changes={}), keys


def _discard_repaired(delivery: Delivery) -> Delivery:
    return replace(delivery, resolutions=[replace(one, repaired=None) for one in delivery.resolutions])


def _find_last_places(by_key: Method, *of: Any, **how: Any) -> StoredRows:
    stored = by_key(*of, **how)
    return replace(stored, indices={key: own[-1:] for key, own in stored.indices.items()})


def _number_anew(_: Method, columns: Any, __: Any, before: Any, after: Any, highest: int) -> Numbers:
    return assign_numbers(columns, {}, dict.fromkeys(before, ()), after, highest)


def _write_current_knowledge(known_rows: Method, self: VersionWriter, *of: Any) -> Iterator[dict[str, Cell]]:
    name = self.history.validity_columns.known_to
    return (row for row in known_rows(self, *of) if row[name] is None)


ForgetsBases = mutate_table(
    "ignores base rows",
    spoil=wrapped(
        _Entries, "bases", lambda bases, *of: {key: replace(base, row=None) for key, base in bases(*of).items()}
    ),
)
JoinsNoKeys = mutate_table(
    "does not read keys that are linked to those of a batch by key changes",
    spoil=patched(_Entries, "linked", lambda _self, touched: frozenset(touched)),
)
NumbersVersionsAnew = mutate_table(
    "gives new numbers to all versions of the keys of a batch",
    spoil=wrapped(changed_rows, "assign_numbers", _number_anew),
)

BY_LAW: Mapping[str, Sequence[type[AnyTable]]] = {
    "an_update_replaces_a_row": (
        mutate_table(
            "finds no stored rows", spoil=patched(settled_batch, "find_rows", lambda *_, **__: StoredRows())
        ),
    ),
    "any_delivery_gives_the_rows_of_the_source": (
        mutate_table(
            "reads data files without their deletes", spoil=patched(local_files, "_deleted", lambda *_: BitMap64())
        ),
        mutate_table(
            "reads only one data file of a table",
            spoil=wrapped(local_files, "_stored", lambda stored, *of: (stored(*of) or [])[:1]),
        ),
    ),
    "the_last_change_of_a_key_wins": (
        mutate_table("drops the last event", spoil=wrapped(settled_batch, "read_batch", _read_batch_without_last)),
    ),
    "an_object_delivered_again_changes_nothing": (
        mutate_table(
            "ignores applied objects and remembered deletes",
            spoil=wrapped(settled_batch, "read_change_log", _read_change_log_without_changes),
        ),
        mutate_table(
            "adds rows of repeated objects to a table without a key",
            spoil=wrapped(
                settled_batch,
                "append",
                lambda append, table, rows, memory, delivery: append(
                    table, rows, replace(memory, records=[]), delivery
                ),
            ),
        ),
    ),
    "a_table_without_a_key_has_each_event_once": (
        mutate_table(
            "discards repaired rows of a table without a key",
            spoil=wrapped(settled_batch, "append", lambda append, *of: append(*of[:-1], _discard_repaired(of[-1]))),
        ),
    ),
    "a_late_change_overwrites_nothing_newer": (
        mutate_table(
            "ignores remembered deletes",
            spoil=_remembers(lambda change: change.event.operation is not Operation.DELETE),
        ),
    ),
    "a_truncate_removes_every_older_row": (
        mutate_table(
            "truncates only rows with other events in the batch",
            spoil=patched(SettledBatch, "truncates_others", False),
        ),
    ),
    "a_row_that_cannot_be_applied_holds_its_key": (
        mutate_table(
            "applies the readable cells of a rejected row",
            spoil=wrapped(settled_batch, "read_batch", _read_rejects_as_events),
        ),
        mutate_table("ignores waiting events", spoil=_remembers(lambda change: not change.waiting)),
        mutate_table("writes no entries for waiting events", spoil=patched(Entries, "add_waiting", skip)),
    ),
    "partial_rows_and_key_changes_give_the_rows_of_the_source": (
        mutate_table(
            "remembers unsent cells as NULL",
            spoil=patched(change_log_entries, "unset_paths", lambda _column, _value: []),
        ),
        JoinsNoKeys,
    ),
    "any_order_and_any_crash_give_the_same_history": (
        mutate_table(
            "removes only one of the stored rows of a key", spoil=wrapped(stored_rows, "_by_key", _find_last_places)
        ),
        ForgetsBases,
    ),
    "corpus_truncate": (
        mutate_table(
            "ignores remembered truncates",
            spoil=_remembers(lambda change: change.event.operation is not Operation.TRUNCATE),
        ),
    ),
    "a_version_keeps_its_number": (NumbersVersionsAnew,),
    "recorded_versions_are_not_rewritten": (
        mutate_table(
            "removes superseded knowledge, like a history without it",
            spoil=wrapped(VersionWriter, "_known_rows", _write_current_knowledge),
        ),
    ),
}
"""Mistakes by the law of the conformance kit that shows them."""

LONG = frozenset({ForgetsBases, JoinsNoKeys, NumbersVersionsAnew})
"""Mistakes that are slow to show. The others need a few batches."""

DRAWS: Mapping[type[AnyTable], Draw] = {ForgetsBases: Draw(seed=14, case="by the day of a late run")}
"""Draws of mistakes that the draw of their law does not show."""
