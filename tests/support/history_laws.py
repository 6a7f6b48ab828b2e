"""The laws of a history: the core's fold against the models, and deliveries against the fold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from random import Random

from history_model import ExpectedVersion, histories, of_one_key
from model_laws import Player, Way, draw_features, loaded_epoch

from lakeward.core.dimension import Dimension, Lateness, TableName
from lakeward.core.events import LOAD_SEQUENCE, ChangeEvent, Key, Operation, Position
from lakeward.core.history.options import History, Kind, Track
from lakeward.core.history.version_checks import violation
from lakeward.core.history.versions import Columns, Versions, last_versions, splice_versions
from lakeward.core.merge.change_log import Reason, Reject
from lakeward.core.merge.delivery import Resolution
from lakeward.core.merge.fold import Row, apply, columns_of
from lakeward.core.schema import Column, Schema, Type
from lakeward.plugins.testing.simulated_database import Features, Feed, batches, feed, with_repeats

TRACKS = (Track(), Track(frozenset({"a"}), but=False), Track(frozenset({"a"})))

KINDS = {"a": Kind.VERSION, "u": Kind.OVERWRITE, "k": Kind.KEEP_FIRST, "p": Kind.PREVIOUS}
ONE = Dimension(
    name=TableName("shop", "one"),
    schema=Schema(tuple(Column(name, Type("int")) for name in ("id", *KINDS))),
    key=("id",),
    history=History(kinds=KINDS),
)


def dated(random: Random, event: ChangeEvent, runs_back: dict[int, int]) -> ChangeEvent:
    """Give events valid times: several transactions share one, and time may run back."""
    return replace(event, instant=instant(random, event, runs_back))


def instant(random: Random, event: ChangeEvent, runs_back: dict[int, int]) -> int:
    time = 0 if event.time is None else event.time
    offset = runs_back.setdefault(time, random.randrange(6) if random.random() < 0.3 else 0)
    return (time - offset) // 2


def check_database(random: Random) -> None:
    """Convergence: the versions are those of the simulated database, also with partial events."""
    features = Features(
        sequence=random.choice(["commit", "unique"]),
        unset=random.random() < 0.5,
        moves=random.random() < 0.5,
        truncates=random.random() < 0.5,
        load=random.random() < 0.5,
        overlap=False,
    )
    source = feed(random, features)
    dimension = replace(features.dimension(), history=History(track=random.choice(TRACKS)))
    columns = history_columns(dimension)
    runs_back = dict.fromkeys(range(source.ended + 1), 0) if features.moves else dict[int, int]()
    events = [dated(random, event, runs_back) for event in source.events]
    rows = apply(dimension, {}, random.sample(events, len(events))).rows
    periods_by_key = {
        key: tracked_versions(row.versions, columns.tracked) for key, row in rows.items() if row.versions
    }
    clock = {event.time: event.instant for event in events}
    assert periods_by_key == histories(
        source, columns.tracked, lambda time: clock[time] or 0, lambda e: clock[e.time] or 0
    )
    assert all(violation(columns, row.versions) is None for row in rows.values())


def check_as_of(random: Random) -> None:
    """The history as of an instant is the database as it was then, and its current versions are the mirror."""
    moves, unset = random.random() < 0.5, random.random() < 0.5
    features = Features(sequence="unique", unset=unset, moves=moves, truncates=random.random() < 0.5)
    source = feed(random, features)
    dimension = replace(features.dimension(), history=History(track=random.choice(TRACKS)))
    names = ("id", *history_columns(dimension).tracked)
    events = [replace(event, instant=event.time) for event in source.events]
    rows = apply(dimension, {}, events).rows
    for place, state in enumerate(source.states):
        seen = {key: cells for key, row in rows.items() if (cells := as_of(row, source.began + place)) is not None}
        assert cells_of(seen, names) == cells_of({(k,): {"id": k, **image} for k, image in state.items()}, names)
    mirror = apply(features.dimension(), {}, source.events).rows
    current = {key: row.versions[-1].cells for key, row in rows.items() if row.versions and not row.deleted}
    assert all(row.deleted != row.versions[-1].is_current for row in rows.values() if row.versions)
    assert cells_of(current, names) == cells_of(
        {k: row.cells for k, row in mirror.items() if not row.deleted}, names
    )


def as_of(row: Row, instant: int) -> Mapping[str, object] | None:
    images = [version.cells for version in row.versions if version.covers(instant)]
    assert len(images) <= 1
    return images[0] if images else None


def cells_of(rows: Mapping[Key, Mapping[str, object]], names: tuple[str, ...]) -> dict[Key, dict[str, object]]:
    return {key: {name: cells[name] for name in names} for key, cells in rows.items()}


def history_columns(dimension: Dimension) -> Columns:
    columns = columns_of(dimension)
    assert columns is not None
    return columns


def tracked_versions(versions: Versions, names: tuple[str, ...]) -> list[ExpectedVersion]:
    return [ExpectedVersion(v.valid_from, v.valid_to, {name: v.cells[name] for name in names}) for v in versions]


def draw_events(random: Random) -> list[ChangeEvent]:
    """Draw the events of one key with few instants, so that several states share one, and some run back."""
    now, events = 0, []
    for number in range(1, random.randrange(2, 12)):
        now += random.choice([-2, 0, 0, 1, 3])
        operation = random.choice([Operation.DELETE, *[Operation.UPDATE] * 3])
        cells = {name: random.randrange(3) for name in KINDS}
        place = Position(1, number, 1, number)
        events.append(
            ChangeEvent(operation=operation, position=place, key=(1,), cells={"id": 1, **cells}, instant=now)
        )
    return events


def check_key(random: Random) -> None:
    """Columns of each kind, of one key."""
    events = draw_events(random)
    row = apply(ONE, {}, events).rows[(1,)]
    states = [(e.instant or 0, None if e.operation is Operation.DELETE else e.cells) for e in events]
    expected = of_one_key(states, ["a"], ["k"], ["p"])
    periods_of_row = [
        ExpectedVersion(v.valid_from, v.valid_to, dict(v.cells), dict(v.previous)) for v in row.versions
    ]
    assert periods_of_row == expected


def check_split(random: Random) -> None:
    """Batching, in small: the last two versions are enough to continue."""
    events = draw_events(random)
    whole = apply(ONE, {}, events).rows[(1,)]
    place = random.randrange(len(events) + 1)
    first = apply(ONE, {}, events[:place]).rows
    base = {key: replace(row, versions=last_versions(row.versions)) for key, row in first.items()}
    second = apply(ONE, base, events[place:]).rows
    assert splice_parts(first, base, second) == whole.versions


def splice_parts(first: Mapping[Key, Row], base: Mapping[Key, Row], second: Mapping[Key, Row]) -> Versions:
    before = first[(1,)].versions if first else ()
    return splice_versions(before, base[(1,)].versions if base else (), second[(1,)].versions)


def check_reload(random: Random, lateness: Lateness, way: Way) -> None:
    """Rows missing from a full load end at its greatest instant, or with its run. All others continue."""
    features = draw_features(random, lateness)
    first = way.feed(random, features)
    second = way.feed(random, features, epoch=2, after=first)
    if random.random() < 0.2:
        without_instants(second)
    player, delivered, superseded = way.player(features, lateness), set[int](), False
    for source in (first, second):
        for batch in batches(random, with_repeats(random, way.order(random, source, lateness))):
            delivered.update(batch)
            epoch = 2 if source is second and delivered.issuperset(second.loads) else loaded_epoch(first, delivered)
            superseded |= epoch == 2 and player.memory.epoch == 1 and bool(player.memory.holds)
            player.deliver([event for number in batch for event in source.objects[number]], loaded=epoch, ran=RAN)
    if not player.memory.holds and not superseded:  # of keys that are held a history lacks what waits
        events = [*first.events, *deletes_of_load(player.dimension, first, second), *second.events]
        dated = [event if event.instant is not None else replace(event, instant=RAN) for event in events]
        assert way.seen(player.rows) == way.seen(apply(player.dimension, {}, dated).rows)


def check_altered(random: Random, lateness: Lateness, way: Way) -> None:
    """Versions altered by others hold their keys. A repair and a replay give the unaltered table."""
    features = replace(draw_features(random, lateness), truncates=False)
    source = way.feed(random, features)
    player, delivered, altered = way.player(features, lateness), set[int](), dict[Key, tuple[Row, Row]]()
    player.is_altered = True
    by_place, reasons = {event.position: event for event in source.events}, set[Reason]()
    bad = {e.position for e in source.events if e.keys and not e.is_load and random.random() < 0.05}
    for batch in batches(random, with_repeats(random, way.order(random, source, lateness))):
        delivered.update(batch)
        if random.random() < 0.5:
            alter(random, player, altered)
        arriving = [event for number in batch for event in source.objects[number]]
        player.deliver(
            [event for event in arriving if event.position not in bad],
            [Reject(e.position, Reason.CAST, e.keys, e.transaction, e.time) for e in arriving if e.position in bad],
            loaded=loaded_epoch(source, delivered),
        )
        if random.random() < 0.3:
            reasons |= repair_row(random, player, altered, by_place)
    reasons |= repair_row(random, player, altered, by_place)
    if Reason.KEY_SHIFT not in reasons:  # which a person gives up
        assert way.seen(player.rows) == way.seen(apply(player.dimension, {}, source.events).rows)


def alter(random: Random, player: Player, altered: dict[Key, tuple[Row, Row]]) -> None:
    """Add two overlapping versions to some keys, and record the rows before and after it."""
    keys = [key for key, row in player.rows.items() if row.versions and key not in altered]
    for key in random.sample(keys, min(len(keys), 2)):
        row = player.rows[key]
        first = row.versions[0]
        begins = first.valid_from
        wrong = [
            replace(first, valid_from=begins - start, valid_to=begins - end, deleted=True)
            for start, end in ((20, 12), (15, 5))
        ]
        player.rows[key] = replace(row, versions=(*wrong, *row.versions))
        altered[key] = (row, player.rows[key])


def repair_row(
    random: Random, player: Player, altered: dict[Key, tuple[Row, Row]], by_place: Mapping[Position, ChangeEvent]
) -> set[Reason]:
    """Repair the altered versions, replay all held events, and return the reasons of the holds."""
    for key, (right, wrong) in altered.items():
        if player.rows.get(key) is wrong:
            player.rows[key] = right
    altered.clear()
    reasons = set[Reason]()
    while player.memory.holds:
        hold = player.memory.holds[random.choice(sorted(player.memory.holds))]
        reasons.add(hold.reason)
        is_fixed = hold.reason is not Reason.KEY_SHIFT
        player.deliver(resolutions=[Resolution(hold.position, by_place[hold.position] if is_fixed else None)])
    return reasons


RAN = 1_000
"""The times of the runs of a law, which are the valid times of events without one."""


def without_instants(source: Feed) -> None:
    """Remove the times of the rows of the load."""
    for number in source.loads:
        source.objects[number][:] = [replace(e, time=None, instant=None) for e in source.objects[number]]


def deletes_of_load(dimension: Dimension, first: Feed, second: Feed) -> list[ChangeEvent]:
    """Return a delete for each old row that the load lacks, at the run if the load is older than the row."""
    loaded = [event for number in second.loads for event in second.objects[number]]
    held = {event.key for event in loaded}
    end = max((RAN if event.instant is None else event.instant for event in loaded), default=RAN)
    rows = apply(dimension, {}, first.events).rows
    place = Position(2, LOAD_SEQUENCE, 0, 0)
    return [
        ChangeEvent(
            operation=Operation.DELETE,
            position=place,
            key=key,
            instant=RAN if any(end < version.reached for version in row.versions) else end,
        )
        for key, row in rows.items()
        if not row.deleted and key not in held
    ]
