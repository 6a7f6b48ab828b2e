"""The law of rollbacks: rows, progress, change log and quarantine return to an earlier commit together."""

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


def a_rollback_restores_the_table_and_the_next_batch_follows(trial: Trial) -> None:
    """Rollback: rows, progress, change log and quarantine are as before. The feed is applied again in any batches.

    A process may have crashed in the middle of a batch before the rollback.
    """
    script = _script(trial)
    player = Player(script, trial.make().lake, expected=expected(script))
    states: list[tuple[int, Moment, Any]] = []
    random, number = Random(0), 0
    times = min(1 if trial.is_packed else 2, len(script.deliveries))
    rolls_back = set(trial.random.sample(range(len(script.deliveries)), k=times))
    while number < len(script.deliveries):
        if player.moments and script.deliveries[number]:
            states.append((number, player.observe(), random.getstate()))
        if number in rolls_back and (earlier := _earlier(states, player)):
            rolls_back.remove(number)
            if trial.random.random() < 0.5 and script.deliveries[number]:
                player.leave(("record_batch", "after"))
            number, then, generator = trial.random.choice(earlier)
            _roll_back(player, number, then)
            player.moments = player.moments[: _moments_until(player, then)]
            random.setstate(generator)
            states = [state for state in states if state[0] < number]
            continue
        player.deliver()
        player.settle(random, script.settles, iter(()))
        number += 1
    player.settle(random, 1.0, iter(()))
    if earlier := _earlier(states, player):
        number, then, _ = trial.random.choice(earlier)
        _roll_back(player, number, then)
        player = _in_other_batches(player, number)
    rows = player.observe().rows
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


def _earlier(states: Sequence[tuple[int, Moment, Any]], player: Player) -> Sequence[tuple[int, Moment, Any]]:
    """Return the recorded states of earlier batches: delivery number, moment, and state of the random generator."""
    now = player.moments[-1].progress.batch if player.moments else 0
    return [state for state in states if 0 < state[1].progress.batch < now]


def _roll_back(player: Player, number: int, then: Moment) -> None:
    """Roll the table back to before a delivery. Raises AssertionError if it is not as it was then."""
    player.roll_back(then.progress.batch)
    player.source.arrived = number
    moment = player.observe()
    if moment != then:
        raise AssertionError(f"after the rollback, {difference(moment, then, player.delivered)}")


def _moments_until(player: Player, then: Moment) -> int:
    return 1 + max(n for n, one in enumerate(player.moments) if one.progress.batch <= then.progress.batch)


def _in_other_batches(player: Player, number: int) -> Player:
    """Deliver the rest two by two, settle the quarantine, and return the player."""
    script = player.script
    rest = script.deliveries[number:]
    pairs = [_together(rest[place : place + 2]) for place in range(0, len(rest), 2)]
    loaded = script.loaded_with
    other = replace(
        script,
        deliveries=[*script.deliveries[:number], *pairs],
        loaded_with=loaded if loaded < number else number + (loaded - number) // 2,
    )
    continued = Player(other, player.lake, player.queue, player.ledger)
    continued.source.arrived = number
    for _ in pairs:
        continued.deliver()
        continued.settle(Random(0), 0.5, iter(()))
    continued.settle(Random(0), 1.0, iter(()))
    return continued


def _together(deliveries: Sequence[Sequence[Item]]) -> Sequence[Item]:
    """Return the items of several deliveries as one, each once, in position order."""
    items_by_place = {item.position[2:]: item for items in deliveries for item in items}
    return sorted(items_by_place.values(), key=lambda item: item.position)


LAW: Final = Law.of(
    a_rollback_restores_the_table_and_the_next_batch_follows,
    Capability.ROLLBACK.value,
    few=3,
    share=0.1,
    weight=0.5,
)
