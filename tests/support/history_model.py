"""Histories in the slowest and simplest way, without code of the core, to which the core is compared.

One model reads a database after each of its transactions and records for how long each
row stayed the same. The other reads the events of one key, and also has columns that are not
tracked.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from lakeward.core.events import ChangeEvent, Key, Operation
from lakeward.plugins.testing.simulated_database import Feed

Image = Mapping[str, object]


@dataclass
class ExpectedVersion:
    """A version: the time in which a row had these cells, and previous values of kept columns."""

    valid_from: int
    valid_to: int | None
    image: dict[str, object]
    previous: dict[str, object] = field(default_factory=dict)


def periods(moments: Sequence[tuple[int, Image | None]], tracked: Iterable[str]) -> list[ExpectedVersion]:
    """Return the times in which the tracked columns of a row do not change. Of an instant the last state counts."""
    at: dict[int, Image | None] = dict(moments)
    result: list[ExpectedVersion] = []
    current: dict[str, object] | None = None
    for instant in sorted(at):
        image = at[instant]
        seen = None if image is None else {name: image[name] for name in tracked}
        if seen == current:
            continue
        if current is not None:
            result[-1].valid_to = instant
        if seen is not None:
            result.append(ExpectedVersion(instant, None, seen))
        current = seen
    return result


def running(moments: Sequence[tuple[int, Image | None]], tracked: Iterable[str]) -> list[tuple[int, Image | None]]:
    """Remove instants before earlier ones, as long as a version of the earlier ones is left."""
    images: list[tuple[int, Image | None]] = []
    for instant, image in moments:
        if not periods(images, tracked):
            images = []
        images.append((max([instant, *(before for before, _ in images)]), image))
    return images


def histories(
    feed: Feed, tracked: Sequence[str], instant: Callable[[int], int], loaded: Callable[[ChangeEvent], int]
) -> dict[Key, list[ExpectedVersion]]:
    """Return the versions of each key of a database that was captured from its beginning, or loaded at once.

    The state after a transaction is that of the database. Of the states within it only the existence of
    the row counts. With key changes, time may not run back.
    """
    moments: dict[Key, list[tuple[int, Image | None]]] = defaultdict(list)
    last: dict[tuple[Key, int], tuple[int, Image | None]] = {}
    for event in feed.events:
        if event.is_load:
            moments[event.key].append((loaded(event), feed.states[0][_id(event.key)]))
    for event in sorted(feed.events, key=lambda event: event.position):
        if event.is_load or event.time is None:
            continue
        before, after = (feed.states[event.time - feed.began + place] for place in (-1, 0))
        is_truncate = event.operation is Operation.TRUNCATE
        for key in {(number,) for number in before} if is_truncate else event.keys:
            is_gone = is_truncate or event.operation is Operation.DELETE or key == event.old_key
            passing = None if is_gone else dict.fromkeys(tracked)
            moments[key].append((instant(event.time), passing))
            last[key, event.time] = len(moments[key]) - 1, after.get(_id(key))
    for (key, time), (place, image) in last.items():
        moments[key][place] = instant(time), image
    periods_by_key = {key: periods(running(value, tracked), tracked) for key, value in moments.items()}
    return {key: value for key, value in periods_by_key.items() if value}


def _id(key: Key) -> int:
    (own_id,) = key
    assert isinstance(own_id, int)
    return own_id


def of_one_key(
    events: Sequence[tuple[int, Image | None]],
    tracked: Sequence[str],
    kept: Sequence[str] = (),
    previous: Sequence[str] = (),
) -> list[ExpectedVersion]:
    """Return the versions of one key with all its columns, from its events in order.

    A state belongs to the version that has its tracked cells: to the one that begins at its instant
    where nothing else came in between, else to the one that is valid there or ends there.
    """
    moments = running(events, tracked)
    own_periods = periods(moments, tracked)
    states = [_states(one, moments, tracked) for one in own_periods]
    for name in kept:
        for images in states:
            for image in images:
                image[name] = states[0][0][name]
    for one, images in zip(own_periods, states, strict=True):
        one.image = dict(images[-1])
    for name in previous:
        values: list[object] = []
        for one, images in zip(own_periods, states, strict=True):
            for image in images:
                values += [image[name]] if values[-1:] != [image[name]] else []
            one.previous[name] = values[-2] if len(values) > 1 else None
    return own_periods


def _states(
    one: ExpectedVersion, moments: Sequence[tuple[int, Image | None]], tracked: Sequence[str]
) -> list[dict[str, object]]:
    beginning: list[dict[str, object]] = []
    later: list[dict[str, object]] = []
    for instant, image in moments:
        is_same = image is not None and {name: image[name] for name in tracked} == one.image
        if instant == one.valid_from:
            beginning = [*beginning, dict(image)] if is_same and image is not None else []
        elif instant > one.valid_from and (one.valid_to is None or instant <= one.valid_to) and is_same:
            later.append(dict(image or {}))
    return [*beginning, *later]
