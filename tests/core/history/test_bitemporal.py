"""What was believed when: as known at a batch, a history is what stood after it, whatever came later."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from typing import Any

import pytest
from history_laws import KINDS, ONE, draw_events
from memory_jobs import UPDATE, TableFeed, columns, event, item

from lakeward.adapters.memory import MemorySource, MemoryTable
from lakeward.core.dimension import Dimension, Within
from lakeward.core.errors import ConfigError
from lakeward.core.events import Cell, ChangeEvent, Key
from lakeward.core.history.bitemporal import KnownVersion, KnownVersions, known_after, update_known_versions
from lakeward.core.history.options import History, Kind, Surrogate, ValidityColumns
from lakeward.core.history.version_rows import current_row, rows
from lakeward.core.history.versions import Versions
from lakeward.core.merge.fold import apply
from lakeward.core.schema import Column, Schema, Type

HISTORIES = 400
"""So many keys, each with its own events, in an order and in batches of their own."""

WAYS = (
    History(kinds=KINDS, is_bitemporal=True),
    History(kinds={**KINDS, "a": Kind.CURRENT}, previous_key=True, is_bitemporal=True),
    History(
        kinds=KINDS,
        is_bitemporal=True,
        validity_columns=ValidityColumns(surrogate=Surrogate.HASH, open_end=1 << 40, is_current=None),
    ),
)
KEY = (1,)

Revise = Callable[[Dimension, Key, KnownVersions, Versions, int], KnownVersions]


@dataclass(frozen=True)
class FoldedHistory:
    """What is believed of a key after all batches, and what its history was after each of them."""

    known_versions: KnownVersions
    stored: Mapping[int, Sequence[Mapping[str, Cell]]]


def play(random: Random, history: History, revise: Revise) -> FoldedHistory:
    """Let the events of a key come in any order, batch by batch."""
    dimension, events = replace(ONE, history=history), draw_events(random)
    random.shuffle(events)
    arrived: list[ChangeEvent] = []
    found, stored, batch = KnownVersions(), {}, random.randrange(1, 5)
    while events:
        selection = random.randrange(3)
        arrived, events = [*arrived, *events[:selection]], events[selection:]
        row = apply(dimension, {}, arrived).rows.get(KEY)
        versions = () if row is None else row.versions
        found = revise(dimension, KEY, found, versions, batch)
        stored[batch] = [*rows(dimension, KEY, versions, {})]
        batch += random.choice([1, 1, 2])  # between them are batches that do not touch the key
    return FoldedHistory(found, stored)


def check(random: Random, history: History, revise: Revise) -> None:
    """The law, and that no known is written twice."""
    found = play(random, history, revise)
    for batch, right in found.stored.items():
        assert in_order(known_after(found.known_versions, batch)) == right
    last = max(found.stored, default=0)
    assert in_order(one for one in found.known_versions if one.known_to is None) == found.stored.get(last, [])
    named = Counter((one.cells["valid_from"], one.known_from) for one in found.known_versions)
    assert set(named.values()) <= {1}, "key, start and batch tell rows apart"
    for one in found.known_versions:
        assert one.known_to is None or one.known_from < one.known_to
        assert not any(
            one.shows(other.cells) and one.known_to == other.known_from for other in found.known_versions
        )


def in_order(known_versions: Any) -> list[Mapping[str, Cell]]:
    return sorted((known.cells for known in known_versions), key=lambda cells: cells["valid_from"])


def check_all(revise: Revise) -> None:
    for seed in range(HISTORIES):
        check(Random(seed), WAYS[seed % len(WAYS)], revise)


def test_a_history_as_known_at_a_batch_is_the_one_stored_after_it() -> None:
    check_all(update_known_versions)


# What breaks it.


def with_shows(shows: Callable[[KnownVersion, Mapping[str, Cell]], bool]) -> Revise:
    """Return the function with another decision whether a known version shows a row."""

    def revise(*given: Any) -> KnownVersions:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(KnownVersion, "shows", shows)
            return update_known_versions(*given)

    return revise


def ends_late(*given: Any) -> KnownVersions:
    found, batch = update_known_versions(*given), given[-1]
    return tuple(replace(one, known_to=batch + 1) if one.known_to == batch else one for one in found)


MISTAKES: Mapping[str, Revise] = {
    "only what is believed now is kept": lambda *given: tuple(
        one for one in update_known_versions(*given) if one.known_to is None
    ),
    "a version that begins as before is the same, whatever it shows": with_shows(lambda self, other: True),
    "a change without a version of its own is written over": with_shows(
        lambda self, other: all(self.cells[name] == other[name] for name in ("a", "valid_to"))
    ),
    "what a batch finds to be otherwise is believed until the next": ends_late,
    "each version of a touched key is written": with_shows(lambda self, other: False),
}


@pytest.mark.parametrize("revise", MISTAKES.values(), ids=MISTAKES)
def test_known_versions_that_are_kept_wrongly_break_the_law(revise: Revise) -> None:
    with pytest.raises(AssertionError):
        check_all(revise)


# The table that has them.

SCHEMA = columns(id="int", a="int", seen="int")
HISTORY = History(kinds={"seen": Kind.OVERWRITE}, is_bitemporal=True)
DIMENSION = item(SCHEMA, history=HISTORY, lateness=Within(1000))


def test_a_bitemporal_table_has_two_more_columns_and_the_batch_in_its_key() -> None:
    assert DIMENSION.stored.key == ("id", "valid_from", "known_from")
    assert DIMENSION.stored.schema.names[-2:] == ("known_from", "known_to")
    assert [column.type.name for column in DIMENSION.stored.schema.columns[-2:]] == ["bigint", "bigint"]
    assert HISTORY.source_columns(DIMENSION.stored.schema) == SCHEMA
    plain = replace(DIMENSION, history=replace(HISTORY, is_bitemporal=False))
    assert plain.stored.key == ("id", "valid_from")
    assert plain.stored.schema.names == DIMENSION.stored.schema.names[:-2]


def test_a_column_of_the_source_may_have_the_name_of_a_column_that_the_history_lacks() -> None:
    names = ("id", "known_from", "version_key", "_previous_key")
    schema = Schema(tuple(Column(name, Type("int")) for name in names))
    plain = History()
    plain.check("shop.item", schema, ("id",))
    assert plain.source_columns(plain.schema(schema, ("id",))) == schema
    with pytest.raises(ConfigError) as refused:
        History(is_bitemporal=True).check("shop.item", schema, ("id",))
    assert refused.value.found == "two columns known_from"


def test_the_current_row_is_a_version_that_is_still_believed() -> None:
    was = {"valid_from": 1, "valid_to": None, "is_current": True, "known_from": 1, "known_to": 3}
    assert current_row(HISTORY, [was]) is None
    assert current_row(HISTORY, [was, {**was, "known_from": 3, "known_to": None}]) == {
        **was,
        "known_from": 3,
        "known_to": None,
    }


def change(at: int, a: int, seen: int) -> ChangeEvent:
    return event(UPDATE, at, time=at, a=a, seen=seen)


def table_after(*deliveries: ChangeEvent, table: MemoryTable | None = None) -> MemoryTable:
    """Return a table after batches of an event each."""
    table = table or MemoryTable(DIMENSION)
    feed = TableFeed(table.dimension, MemorySource(), table)
    for place, one in enumerate(deliveries, 1):
        feed.deliver(place, replace(one, position=one.position._replace(object=place)))
    return table


def seen(table: MemoryTable) -> list[tuple[object, ...]]:
    """Return what is believed of the key: a and seen, and between which batches."""
    found = [(one.cells["a"], one.cells["seen"], one.known_from, one.known_to) for one in table.known_versions[KEY]]
    return sorted(found, key=lambda row: row[2:3] + row[:2])


def test_an_overwritten_untracked_column_makes_a_new_known_version() -> None:
    table = table_after(change(10, a=1, seen=1), change(20, a=1, seen=2), change(30, a=1, seen=2))
    assert seen(table) == [(1, 1, 1, 2), (1, 2, 2, None)]
    (_, believed) = table.known_versions[KEY]
    assert believed.position.sequence == 30, "it is that of the last event folded into the version"
    assert table.progress.counts.applied == 1


def test_a_rollback_restores_the_known_versions() -> None:
    table = table_after(change(10, a=1, seen=1), change(30, a=2, seen=2))
    before = table.known_versions
    table_after(change(10, a=1, seen=1), change(30, a=2, seen=2), change(20, a=3, seen=3), table=table)
    assert table.known_versions != before
    table.roll_back(table.preview_rollback("2"))
    assert table.known_versions == before


def test_a_plain_history_keeps_no_corrected_versions() -> None:
    plain = MemoryTable(replace(DIMENSION, history=replace(HISTORY, is_bitemporal=False)))
    assert table_after(change(10, a=1, seen=1), change(30, a=2, seen=2), table=plain).known_versions == {}


@pytest.mark.parametrize("kind", [Kind.PREVIOUS, Kind.CURRENT])
def test_derived_columns_are_recognised_by_the_old_name_too(kind: Kind) -> None:
    was, is_, renames = History(kinds={"a": kind}), History(kinds={"b": kind}), {"a": "b"}
    schema = columns(id="int", a="int")
    assert is_.source_columns(was.schema(schema, ("id",)), renames) == schema
    word = "previous" if kind is Kind.PREVIOUS else "current"
    assert is_.new_names(renames) == {"a": "b", f"{word}_a": f"{word}_b"}
