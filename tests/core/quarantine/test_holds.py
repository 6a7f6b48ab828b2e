"""What waits behind a row in quarantine, also across key changes that wait."""

from __future__ import annotations

import pytest

from lakeward.core.events import Position
from lakeward.core.quarantine.holds import Waiter, Waiters


def at(sequence: int) -> Position:
    return Position(1, sequence, 1, 1)


@pytest.mark.parametrize(
    ("waiting", "waits", "others"),
    [
        ([], 0, ()),
        ([(5, "a"), (1, "a"), (6, "b")], 1, ()),
        ([(5, "ab"), (6, "b"), (7, "bc"), (8, "c")], 4, ("b", "c")),
        ([(5, "ab"), (4, "b"), (4, "bc")], 1, ("b",)),
        ([(7, "bc"), (8, "bd"), (5, "ab"), (9, "dc")], 4, ("b", "c", "d")),
    ],
    ids=["nothing", "its own", "a chain", "before the change", "two ways"],
)
def test_a_waiting_key_change_holds_its_keys_from_its_position_on(
    waiting: list[tuple[int, str]], waits: int, others: tuple[str, ...]
) -> None:
    waiters = Waiters.of(Waiter(at(sequence), tuple(keys)) for sequence, keys in waiting)
    behind = waiters.behind(at(3), ("a",))
    assert (behind.waits, behind.also_holds) == (waits, others)
    assert waiters.moved() == {key for _, keys in waiting if len(keys) > 1 for key in keys}
