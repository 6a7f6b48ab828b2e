"""The law of a table that is taken back: what it remembers goes with its rows, and nothing comes to life again."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any, Final

from lakeward.core.dimension import Lateness, Unbounded, Within
from lakeward.core.merge.facts import PARTIAL, Capability
from lakeward.plugins.testing.bench import Law, Trial, expected
from lakeward.plugins.testing.moments import Moment, difference, rows_differ
from lakeward.plugins.testing.player import Player
from lakeward.plugins.testing.scripts import Item, Script, pack_late

_BOUNDS: Final[tuple[Lateness, ...]] = (Within(3), Unbounded())


def a_table_that_is_taken_back_is_what_it_was_and_goes_on_from_there(trial: Trial) -> None:
    """Rollback: rows, progress, memory and quarantine are those of then; the feed follows, in other batches, too.

    A process may have ended in the middle of a batch before.
    """
    script = _script(trial)
    player = Player(script, trial.make().lake, expected=expected(script))
    turns: list[tuple[int, Moment, Any]] = []
    random, number = Random(0), 0
    times = min(1 if trial.is_packed else 2, len(script.deliveries))
    goes_back = set(trial.random.sample(range(len(script.deliveries)), k=times))
    while number < len(script.deliveries):
        if player.moments and script.deliveries[number]:
            turns.append((number, player.look(), random.getstate()))
        if number in goes_back and (earlier := _earlier(turns, player)):
            goes_back.remove(number)
            if trial.random.random() < 0.5 and script.deliveries[number]:
                player.leave(("record_batch", "after"))
            number, then, state = trial.random.choice(earlier)
            _take_back(player, number, then)
            player.moments = player.moments[: _moments_until(player, then)]
            random.setstate(state)
            turns = [turn for turn in turns if turn[0] < number]
            continue
        player.deliver()
        player.settle(random, script.settles, iter(()))
        number += 1
    player.settle(random, 1.0, iter(()))
    if earlier := _earlier(turns, player):
        number, then, _ = trial.random.choice(earlier)
        _take_back(player, number, then)
        player = _in_other_batches(player, number)
    rows = player.look().rows
    if rows != script.truth:
        raise AssertionError(rows_differ(rows, script.truth, player.delivered))


def _script(trial: Trial) -> Script:
    can_be_in_part = all(map(trial.can, PARTIAL))
    in_part = can_be_in_part and (trial.is_packed or trial.random.random() < 0.5)
    truncates = trial.can(Capability.TRUNCATE) and (trial.is_packed or trial.random.random() < 0.3)
    lateness = trial.random.choice(_BOUNDS[:1] if trial.is_packed else _BOUNDS)
    return pack_late(
        trial.random, trial.histories, lateness, bad=0.05, fixed=0.5, in_part=in_part, truncates=truncates
    )


def _earlier(turns: Sequence[tuple[int, Moment, Any]], player: Player) -> Sequence[tuple[int, Moment, Any]]:
    """Return the turns before which the table was at an earlier batch."""
    now = player.moments[-1].progress.batch if player.moments else 0
    return [turn for turn in turns if 0 < turn[1].progress.batch < now]


def _take_back(player: Player, number: int, then: Moment) -> None:
    """Take the table back to before a delivery; it must be what it was then."""
    player.roll_back(then.progress.batch)
    player.source.arrived = number
    found = player.look()
    if found != then:
        raise AssertionError(f"taken back, {difference(found, then, player.delivered)}")


def _moments_until(player: Player, then: Moment) -> int:
    return 1 + max(n for n, one in enumerate(player.moments) if one.progress.batch <= then.progress.batch)


def _in_other_batches(player: Player, number: int) -> Player:
    """Deliver what follows two by two, and settle what waits; return who did."""
    script = player.script
    rest = script.deliveries[number:]
    pairs = [_together(rest[place : place + 2]) for place in range(0, len(rest), 2)]
    loaded = script.loaded_with
    other = replace(
        script,
        deliveries=[*script.deliveries[:number], *pairs],
        loaded_with=loaded if loaded < number else number + (loaded - number) // 2,
    )
    went_on = Player(other, player.lake, player.queue, player.ledger)
    went_on.source.arrived = number
    for _ in pairs:
        went_on.deliver()
        went_on.settle(Random(0), 0.5, iter(()))
    went_on.settle(Random(0), 1.0, iter(()))
    return went_on


def _together(deliveries: Sequence[Sequence[Item]]) -> Sequence[Item]:
    """Return the items of deliveries in one, each once, in the order of their positions."""
    found = {item.position[2:]: item for items in deliveries for item in items}
    return sorted(found.values(), key=lambda item: item.position)


LAW: Final = Law(
    name=a_table_that_is_taken_back_is_what_it_was_and_goes_on_from_there.__name__,
    statement=a_table_that_is_taken_back_is_what_it_was_and_goes_on_from_there.__doc__ or "",
    check=a_table_that_is_taken_back_is_what_it_was_and_goes_on_from_there,
    needs=frozenset({Capability.ROLLBACK.value}),
    few=3,
    share=0.1,
    weight=0.5,
)
