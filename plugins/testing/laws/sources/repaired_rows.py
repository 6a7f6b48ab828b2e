"""The laws of a source for rows in quarantine: the cells that an operator sees, and the repaired event."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

import pytest

from lakeward.core.errors import RepairError
from lakeward.core.events import ChangeEvent, Operation
from lakeward.core.ledger.selection import ObjectHistory
from lakeward.core.merge.change_log import Reason
from lakeward.core.merge.facts import Capability
from lakeward.core.ports import Entry, RepairedRow
from lakeward.core.shaping.recomputed_columns import RecomputedColumns
from lakeward.plugins.testing.feeds import EPOCH, Feed, Law, contents, words


def without_rules_rows_have_the_columns_and_the_key_of_their_table(feed: Feed) -> None:
    """Without rules, a repaired row has the columns and the key of its table."""
    assert feed.open().written(feed.dimension) == feed.dimension


def without_rules_no_column_is_recomputed(feed: Feed) -> None:
    """Without rules, no column is recomputed, for events with any needs."""
    for may_need in (frozenset[Capability](), frozenset(Capability)):
        assert feed.open().recomputed(feed.dimension, may_need) == RecomputedColumns()


def cells_of_a_row_in_quarantine_are_those_of_the_source(feed: Feed) -> None:
    """Another process finds the written cells of that row alone. Unknown ones are left out."""
    feed.deliver(1, 2)
    for item, entry in _in_quarantine(feed):
        cells, written = feed.open().cells(feed.dimension, entry), feed.written(item)
        assert {*cells.after} <= {*feed.dimension.schema.names}, f"cells of unknown columns: {cells}"
        differing = {name: text for name, text in cells.after.items() if written.get(name) != text}
        assert not differing, f"row {entry.row} of {entry.object} was written as {written}; read is {cells}"
        assert not cells.before, "a row without a key change has no cells before it"


def a_repaired_row_is_an_event_at_its_position(feed: Feed) -> None:
    """A repaired row is an event with the cells of the operator and the time of the row. Several do not mix."""
    feed.deliver(1, 2)
    rows = list(_in_quarantine(feed))
    repaired = [replace(entry, repaired=_repaired(feed, item, a=f"repaired {item.key}")) for item, entry in rows]
    events = sorted(feed.rows(feed.open().repair_row(feed.dimension, repaired)), key=lambda item: item.position[2:])
    assert [item.position for item in events] == [item.position for item, _ in rows]
    wanted = [replace(item, cells={**item.cells, "a": f"repaired {item.key}"}) for item, _ in rows]
    assert contents(events) == contents(wanted)


def an_unrepaired_row_is_read_as_it_was_written(feed: Feed) -> None:
    """A row that was held for a change of columns is replayed as written, once its table has the columns."""
    feed.deliver(1, 2)
    for item, entry in _in_quarantine(feed, Reason.SCHEMA):
        (event,) = feed.rows(feed.open().repair_row(feed.dimension, [entry]))
        assert (event.position, words(event)) == (item.position, words(item))


def a_cell_that_does_not_fit_its_column_is_refused_by_its_name(feed: Feed) -> None:
    """A cell that does not fit its column raises a RepairError that names it. It never becomes NULL."""
    feed.deliver(1)
    ((item, entry), *_) = _in_quarantine(feed)
    repaired = replace(entry, repaired=_repaired(feed, item, id="no number"))
    with pytest.raises(RepairError) as refused:
        feed.rows(feed.open().repair_row(feed.dimension, [repaired]))
    assert re.search(r"\bid\b", str(refused.value)), f"the column is not named: {refused.value}"


def _in_quarantine(feed: Feed, reason: Reason = Reason.QUALITY) -> Iterator[tuple[ChangeEvent, Entry]]:
    """Read the next batch, and return its inserts and updates as entries of the quarantine.

    The batch is read like one of a table with rules, which may refuse any row. So each row has its source text.
    """
    source, dimension = feed.open(), replace(feed.dimension, keeps_text=True)
    batch = source.read(dimension, source.select_objects(dimension, ObjectHistory()), EPOCH)
    names = {fact.object.order: fact.object.name for fact in batch.facts.objects}
    items, texts = list(feed.rows(batch.frame)), feed.texts(batch.frame)
    batch.close()
    for item in sorted(items, key=lambda item: item.position[2:]):
        if isinstance(item, ChangeEvent) and item.operation is not Operation.DELETE:
            epoch, sequence, order, row = item.position
            yield (
                item,
                Entry(
                    key=json.dumps([str(part) for part in item.key], separators=(",", ":")),
                    reason=reason.value,
                    detail="",
                    object=names[order],
                    row=row,
                    operation=item.operation.value,
                    epoch=epoch,
                    sequence=sequence,
                    order=order,
                    batch=1,
                    since=0,
                    text=texts.get(item.position, ""),
                    time=item.time,
                ),
            )


def _repaired(feed: Feed, item: ChangeEvent, **cells: str) -> RepairedRow:
    return RepairedRow(operation=item.operation, cells={**feed.written(item), **cells})


LAWS: Final[tuple[Law, ...]] = (
    without_rules_rows_have_the_columns_and_the_key_of_their_table,
    without_rules_no_column_is_recomputed,
    cells_of_a_row_in_quarantine_are_those_of_the_source,
    a_repaired_row_is_an_event_at_its_position,
    an_unrepaired_row_is_read_as_it_was_written,
    a_cell_that_does_not_fit_its_column_is_refused_by_its_name,
)
