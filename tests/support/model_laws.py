"""The laws of the model: `settle`, with its batches, change log and watermarks, compared with `apply`."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from lakeward.core.dimension import ORDERED, Dimension, Lateness, Ordered, Ties, Unbounded, Within
from lakeward.core.events import ChangeEvent, Key, Operation, Position, same_cells
from lakeward.core.history.options import History
from lakeward.core.history.versions import order_versions
from lakeward.core.merge.change_log import ChangeLogContents, Reason, Reject, trim
from lakeward.core.merge.counts import Counts
from lakeward.core.merge.delivery import Delivery, Resolution
from lakeward.core.merge.fold import Row, apply, row_of
from lakeward.core.merge.settle import absorb, settle
from lakeward.core.merge.settling.table_before import TableBefore
from lakeward.plugins.testing.simulated_database import (
    Features,
    Feed,
    batches,
    delivery_order,
    feed,
    truth,
    under_another_name,
    visible,
    with_repeats,
)

MODES: tuple[Lateness, ...] = (Ordered(), Within(3), Unbounded())


@dataclass
class Player:
    """Delivers batches to a table in two dictionaries, as an adapter would.

    If it `is_altered`, others write to it too.
    """

    dimension: Dimension
    rows: dict[Key, Row] = field(default_factory=dict)
    memory: ChangeLogContents = field(default_factory=ChangeLogContents)
    number: int = 0
    counts: Counts = field(default_factory=Counts)
    is_altered: bool = False

    def deliver(
        self,
        events: Sequence[ChangeEvent] = (),
        rejects: Sequence[Reject] = (),
        resolutions: Sequence[Resolution] = (),
        loaded: int | None = None,
        ran: int = 0,
    ) -> Counts:
        self.number += 1
        delivery = Delivery(
            number=self.number, events=events, rejects=rejects, resolutions=resolutions, loaded=loaded, ran=ran
        )
        settled = settle(self.dimension, self.rows, self.memory, delivery)
        assert settled.counts.adds_up(), settled.counts
        broken = [reject for reject in settled.rejects if reject.reason is Reason.HISTORY]
        assert self.is_altered or not broken, "no event of a feed breaks a history"
        for key, row in settled.rows.items():
            self.rows.pop(key, None)
            if row is not None:
                self.rows[key] = self.stored(row)
        self.memory = absorb(self.dimension, self.memory, settled)
        trim(self.dimension, self.memory)
        self.counts += settled.counts
        return settled.counts

    def stored(self, row: Row) -> Row:
        """Return a row as a table reads it. A row of a history has only its versions."""
        return (
            row_of(order_versions([replace(one, deleted=False) for one in row.versions])) if row.versions else row
        )


@dataclass(frozen=True)
class Way:
    """The form of the tables of a law: mirrors, or with a `history` all versions."""

    history: History | None = None

    def feed(self, random: Random, features: Features, **more: Any) -> Feed:
        """Return a feed. For a history its instants differ from its times, and may run back."""
        source = feed(random, features, **more)
        if self.history is None:
            return source
        offsets = {time: random.randrange(6) if random.random() < 0.3 else 0 for time in range(source.ended + 1)}
        for events in source.objects.values():
            times = [event.time or 0 for event in events]
            events[:] = [replace(e, instant=(t - offsets[t]) // 2) for e, t in zip(events, times, strict=True)]
        return source

    def order(self, random: Random, source: Feed, lateness: Lateness) -> list[int]:
        """Return an order of delivery. A load without times comes first if a history would show what it lost."""
        order = delivery_order(random, source.objects, lateness)
        is_timeless = any(event.time is None for number in source.loads for event in source.objects[number])
        if self.history is None or not isinstance(lateness, Within) or not is_timeless:
            return order
        return sorted(order, key=lambda number: number not in source.loads)

    def player(self, features: Features, lateness: Lateness) -> Player:
        return Player(replace(features.dimension(lateness), history=self.history))

    def seen(self, rows: Mapping[Key, Row]) -> Mapping[Key, object]:
        """Return what a reader sees of a table."""
        if self.history is None:
            return visible(rows)
        return {
            key: [(v.valid_from, v.valid_to, dict(v.cells), dict(v.previous), v.previous_key) for v in row.versions]
            for key, row in rows.items()
            if row.versions
        }


MIRROR = Way()


def draw_features(random: Random, lateness: Lateness) -> Features:
    ordered = isinstance(lateness, Ordered)
    moves, unset, load = (random.random() < 0.5 for _ in range(3))
    return Features(
        sequence=random.choice(["commit", "unique", "none"] if ordered else ["commit", "unique"]),
        unset=unset,
        moves=moves and not ordered,
        truncates=random.random() < 0.5,
        load=load,
        overlap=not (moves and unset),
        scatter=isinstance(lateness, Unbounded),
        transactions=25 if isinstance(lateness, Within) else 12,
    )


def loaded_epoch(source: Feed, delivered: set[int], epoch: int = 1) -> int | None:
    return epoch if delivered.issuperset(source.loads) else None


def check_fold(random: Random, lateness: Lateness) -> None:
    """Convergence of the model: its rows are those of the simulated database."""
    features = draw_features(random, lateness)
    source = feed(random, features)
    shuffled = random.sample(source.events, len(source.events))
    assert visible(apply(features.dimension(), {}, shuffled).rows) == truth(source.final)


def check_feed(random: Random, lateness: Lateness, way: Way = MIRROR) -> None:
    """Convergence, batching, idempotence and lateness: any delivery gives the same correct table."""
    features = draw_features(random, lateness)
    source = way.feed(random, features)
    player = way.player(features, lateness)
    delivered: set[int] = set()
    for batch in batches(random, with_repeats(random, way.order(random, source, lateness))):
        delivered.update(batch)
        events = [event for number in batch for event in source.objects[number]]
        player.deliver(events, loaded=loaded_epoch(source, delivered))
    gone = discard_held(player)
    kept = [event for event in source.events if event.position not in gone]
    assert way.seen(player.rows) == way.seen(apply(player.dimension, {}, kept).rows)


def discard_held(player: Player) -> set[Position]:
    """Discard all held rows, because the laws are about other keys. Returns their positions."""
    gone = set[Position]()
    while player.memory.holds:
        place = min(player.memory.holds)
        player.deliver(resolutions=[Resolution(place)])
        gone.add(place)
    return gone


def check_changed_lateness(random: Random, lateness: Lateness, way: Way = MIRROR) -> None:
    """A table that is `ordered` for a time, like its source, has the rows of the feed."""
    features = replace(draw_features(random, ORDERED), sequence=random.choice(["commit", "unique"]))
    source = way.feed(random, features)
    player = way.player(features, lateness)
    delivered: set[int] = set()
    numbers = sorted(source.objects)
    first, last = sorted(random.choices(range(len(numbers) + 1), k=2))
    for part, declared in ((numbers[:first], lateness), (numbers[first:last], ORDERED), (numbers[last:], lateness)):
        player.dimension = replace(player.dimension, lateness=declared)
        objects = {number: source.objects[number] for number in part}
        for batch in batches(random, with_repeats(random, delivery_order(random, objects, declared))):
            delivered.update(batch)
            events = [event for number in batch for event in objects[number]]
            player.deliver(events, loaded=loaded_epoch(source, delivered))
    assert way.seen(player.rows) == way.seen(apply(player.dimension, {}, source.events).rows)


def check_other_names(random: Random, lateness: Lateness, way: Way = MIRROR) -> None:
    """With unique sequences, an object under another name changes nothing."""
    ordered = isinstance(lateness, Ordered)
    features = Features(sequence="unique", unset=True, moves=not ordered, transactions=20)
    source = way.feed(random, features)
    player = way.player(features, lateness)
    order = way.order(random, source, lateness)
    for batch in batches(random, with_repeats(random, order, 0.5)):
        player.deliver([event for number in batch for event in source.objects[number]], loaded=1)
        before = dict(player.rows)
        for _ in range(2):
            copies = [
                e for n in batch for e in under_another_name(source.objects[n], other_name(random, player, n))
            ]
            player.deliver(copies, loaded=1)
            if way.history is None or not player.memory.holds:  # a copy of what is held waits for itself
                assert way.seen(player.rows) == way.seen(before)
                assert ordered or player.rows == before, "the first delivery stands"
    gone = discard_held(player)
    assert gone or way.history or visible(player.rows) == truth(source.final)
    events = [event for event in source.events if event.position not in gone]
    assert way.seen(player.rows) == way.seen(apply(player.dimension, {}, events).rows)


def other_name(random: Random, player: Player, number: int) -> int:
    """Return a new name of an object, before or after all others."""
    return random.choice([-1, 1]) * (10_000 + 100 * player.number + number)


def check_quarantine(random: Random, lateness: Lateness, way: Way = MIRROR) -> None:
    """After every held event is repaired or discarded, the table has the rows of the corrected feed."""
    features = draw_features(random, lateness)
    source = way.feed(random, features)
    by_place = {event.position: event for event in source.events}
    bad = {e.position for e in source.events if e.keys and not e.is_load and random.random() < 0.1}
    player, fixed, delivered = way.player(features, lateness), dict[Position, bool](), set[int]()
    for batch in batches(random, with_repeats(random, way.order(random, source, lateness))):
        delivered.update(batch)
        arriving = [event for number in batch for event in source.objects[number]]
        player.deliver(
            [event for event in arriving if event.position not in bad],
            [Reject(e.position, Reason.CAST, e.keys, e.transaction, e.time) for e in arriving if e.position in bad],
            [decide(random, p, by_place, bad, fixed) for p in player.memory.holds if random.random() < 0.3],
            loaded_epoch(source, delivered),
        )
    while player.memory.holds:
        place = random.choice(sorted(player.memory.holds))
        player.deliver(resolutions=[decide(random, place, by_place, bad, fixed)])
    gone = {p for p in {*bad, *fixed} if not fixed.get(p, not is_truncated_later(p, source))}
    repaired = [event for event in source.events if event.position not in gone]
    assert way.seen(player.rows) == way.seen(apply(player.dimension, {}, repaired).rows)


def is_truncated_later(place: Position, source: Feed) -> bool:
    """Return True if a later truncate made an unsettled event irrelevant."""
    return any(e.operation is Operation.TRUNCATE and e.position > place for e in source.events)


def decide(
    random: Random,
    place: Position,
    by_place: dict[Position, ChangeEvent],
    bad: set[Position],
    fixed: dict[Position, bool],
) -> Resolution:
    """Repair a quarantined event, or discard it. A key shift can only be discarded."""
    fixed[place] = place in bad and random.random() < 0.5
    return Resolution(place, by_place[place] if fixed[place] else None)


def check_ties(random: Random, lateness: Lateness) -> None:
    """The first of tied events is stored. After the others are settled, the table has the rows of the feed."""
    features = draw_features(random, lateness)
    source = feed(random, features)
    if not isinstance(lateness, Ordered):  # such a table has the row that stands, and not by what operation
        source = split_objects(random, source)
    by_place = {event.position: event for event in source.events}
    player = Player(replace(features.dimension(lateness), ties=Ties.QUARANTINE))
    delivered, gone, stand = set[int](), set[Position](), dict[Hashable, ChangeEvent]()
    for batch in batches(random, with_repeats(random, delivery_order(random, source.objects, lateness))):
        fresh = [event for number in {*batch} - delivered for event in source.objects[number]]
        delivered.update(batch)
        player.deliver(
            [event for number in batch for event in source.objects[number]],
            resolutions=[
                decide_tie(random, p, by_place, player, gone) for p in player.memory.holds if random.random() < 0.2
            ],
            loaded=loaded_epoch(source, delivered),
        )
        places = {place for place, hold in player.memory.holds.items() if hold.reason is Reason.TIE}
        assert all(place in places or is_truncated_later(place, source) for place in tied_positions(fresh, stand))
    while player.memory.holds:
        place = random.choice(sorted(player.memory.holds))
        player.deliver(resolutions=[decide_tie(random, place, by_place, player, gone)])
    events = [event for event in source.events if event.position not in gone]
    assert visible(player.rows) == visible(apply(player.dimension, {}, events).rows)


def split_objects(random: Random, source: Feed) -> Feed:
    """Split each object in two, so that events of one transaction may come in two batches."""
    objects: dict[int, list[ChangeEvent]] = {}
    for number, events in source.objects.items():
        cut = random.randrange(len(events) + 1)
        objects[2 * number] = under_another_name(events[:cut], 2 * number)
        objects[2 * number + 1] = under_another_name(events[cut:], 2 * number + 1)
    loads = [part for number in source.loads for part in (2 * number, 2 * number + 1)]
    return replace(source, objects=objects, loads=loads)


def tied_positions(events: Sequence[ChangeEvent], stand: dict[Hashable, ChangeEvent]) -> list[Position]:
    """Return the positions of events that tie with an earlier one. All others are added to the earlier ones."""
    pairs = []
    for event in sorted(events, key=lambda event: event.position):
        if event.keys and event.position.sequence and not event.is_load:
            first = stand.setdefault((event.position.source_order, event.keys), event)
            is_delete = event.operation is Operation.DELETE
            if first.operation is not event.operation or not (is_delete or same_cells(first.cells, event.cells)):
                pairs.append(event.position)
    return pairs


def decide_tie(
    random: Random, place: Position, by_place: Mapping[Position, ChangeEvent], player: Player, gone: set[Position]
) -> Resolution:
    """Replay a tied event, or discard it. A key shift can only be discarded."""
    if player.memory.holds[place].reason is Reason.TIE and random.random() < 0.5:
        return Resolution(place, by_place[place])
    gone.add(place)
    return Resolution(place)


def check_reload(random: Random, lateness: Lateness) -> None:
    """After a reload the table has only the new epoch, and no row is missing in between."""
    features = draw_features(random, lateness)
    first = feed(random, features)
    second = feed(random, features, epoch=2, after=first)
    objects = {**first.objects, **second.objects}
    player, delivered, done = Player(features.dimension(lateness)), set[int](), False
    order = with_repeats(random, delivery_order(random, objects, lateness))
    for batch in batches(random, order):
        delivered.update(batch)
        loaded = loaded_epoch(first, delivered)
        if delivered.issuperset(second.loads):
            loaded, done = 2, True
        player.deliver([event for number in batch for event in objects[number]], loaded=loaded)
        assert {row.position.epoch for row in player.rows.values()} <= ({2} if done else {1})
    assert visible(player.rows) == truth(second.final)


LAWS = {
    "deliveries": check_feed,
    "other names": check_other_names,
    "quarantine": check_quarantine,
    "reload": check_reload,
    "ties": check_ties,
}


# Mistakes of the model, by which tests see that these laws and those of histories can fail.


def forgets_without_folding(dimension: Dimension, memory: ChangeLogContents) -> None:
    if memory.low_watermark is not None:
        memory.changes = {
            place: c for place, c in memory.changes.items() if place.source_order > memory.low_watermark
        }


def stored_rows(before: TableBefore, keys: Iterable[Key]) -> dict[Key, Row]:
    return {key: before.rows[key] for key in keys if key in before.rows}
