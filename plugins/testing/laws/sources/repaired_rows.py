"""The laws of a source for rows in quarantine: what a person sees of one, and what it is as he mended it."""

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
from lakeward.plugins.testing.feeds import EPOCH, Feed, Law, told, words


def without_rules_rows_have_the_columns_and_the_key_of_their_table(feed: Feed) -> None:
    """Rules are put behind a source; what a person mends has the columns that are written."""
    assert feed.open().written(feed.dimension) == feed.dimension


def without_rules_no_column_is_made_again(feed: Feed) -> None:
    """Whatever events may call for."""
    for may_need in (frozenset[Capability](), frozenset(Capability)):
        assert feed.open().recomputed(feed.dimension, may_need) == RecomputedColumns()


def the_cells_of_a_row_in_quarantine_are_those_that_were_written(feed: Feed) -> None:
    """Of that row and no other, to another process; what cannot be told is left out."""
    feed.deliver(1, 2)
    for item, entry in _in_quarantine(feed):
        cells, written = feed.open().cells(feed.dimension, entry), feed.written(item)
        assert {*cells.after} <= {*feed.dimension.schema.names}, f"cells of columns that no row has: {cells}"
        differing = {name: text for name, text in cells.after.items() if written.get(name) != text}
        assert not differing, f"row {entry.row} of {entry.object} was written as {written}; told is {cells}"
        assert not cells.before, "of a row that changes no key there is none before"


def a_mended_row_is_an_event_in_its_place(feed: Feed) -> None:
    """With the cells that a person wrote, at the time of the row; among others, each is its own."""
    feed.deliver(1, 2)
    rows = list(_in_quarantine(feed))
    repaired = [replace(entry, repaired=_mended(feed, item, a=f"mended {item.key}")) for item, entry in rows]
    found = sorted(feed.rows(feed.open().repair_row(feed.dimension, repaired)), key=lambda item: item.position[2:])
    assert [item.position for item in found] == [item.position for item, _ in rows]
    wanted = [replace(item, cells={**item.cells, "a": f"mended {item.key}"}) for item, _ in rows]
    assert told(found) == told(wanted)


def one_that_is_not_mended_is_read_as_it_was_written(feed: Feed) -> None:
    """A row that showed a change of columns is replayed so, once its table follows."""
    feed.deliver(1, 2)
    for item, entry in _in_quarantine(feed, Reason.SCHEMA):
        (found,) = feed.rows(feed.open().repair_row(feed.dimension, [entry]))
        assert (found.position, words(found)) == (item.position, words(item))


def a_cell_that_does_not_fit_its_column_is_refused_by_its_name(feed: Feed) -> None:
    """It is never taken for NULL, or for another value."""
    feed.deliver(1)
    ((item, entry), *_) = _in_quarantine(feed)
    repaired = replace(entry, repaired=_mended(feed, item, id="no number"))
    with pytest.raises(RepairError) as refused:
        feed.rows(feed.open().repair_row(feed.dimension, [repaired]))
    assert re.search(r"\bid\b", str(refused.value)), f"the column is not named: {refused.value}"


def _in_quarantine(feed: Feed, reason: Reason = Reason.QUALITY) -> Iterator[tuple[ChangeEvent, Entry]]:
    """Read the next batch; return its rows that leave values as if they were in quarantine.

    It is read as that of a table with rules is, which may refuse any row: so each comes with its text.
    """
    source, dimension = feed.open(), replace(feed.dimension, keeps_text=True)
    batch = source.read(dimension, source.select_objects(dimension, ObjectHistory()), EPOCH)
    names = {known.object.order: known.object.name for known in batch.facts.objects}
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


def _mended(feed: Feed, item: ChangeEvent, **cells: str) -> RepairedRow:
    return RepairedRow(operation=item.operation, cells={**feed.written(item), **cells})


LAWS: Final[tuple[Law, ...]] = (
    without_rules_rows_have_the_columns_and_the_key_of_their_table,
    without_rules_no_column_is_made_again,
    the_cells_of_a_row_in_quarantine_are_those_that_were_written,
    a_mended_row_is_an_event_in_its_place,
    one_that_is_not_mended_is_read_as_it_was_written,
    a_cell_that_does_not_fit_its_column_is_refused_by_its_name,
)
