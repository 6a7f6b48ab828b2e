"""Files of a topic that was made anew do not silently sort before those of the old topic."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from memory_jobs import NAME

from lakeward.core.checks.log_steps import LEAST_GAP
from lakeward.core.checks.topic_restart import TOPIC_ALARM, refuse_topic_restart
from lakeward.core.errors import AlarmRaised
from lakeward.core.events import NO_SEQUENCE, READ_SEQUENCE, Position
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import ObjectSelection
from lakeward.core.merge.facts import ObjectFacts

SECOND = LEAST_GAP


def file(
    offset: int, first: int, last: int, written: int, *, sequence: int = NO_SEQUENCE, partition: int = 0
) -> ObjectFacts:
    """Return the facts of a file with changes at these seconds, written at a second."""
    order = (partition << 44) + offset + 1
    least, greatest = Position(1, min(sequence, NO_SEQUENCE), order, 1), Position(1, sequence, order, 2)
    found = SourceObject(f"t+{partition}+{offset}", order, 1, written * SECOND)
    return ObjectFacts(found, 2, least, greatest, earliest=first * SECOND, latest=last * SECOND)


def end_of(name: str) -> int:
    return (int(name.split("+")[1]) + 1) << 44


def refused(
    objects: Iterable[ObjectFacts], *late: str, time: int | None = None, acked: Sequence[str] = ()
) -> Sequence[str]:
    """Return the files that the alarm names; none where there is no alarm."""
    selection = ObjectSelection(late=late, partition_end=end_of)
    try:
        refuse_topic_restart(NAME, [*objects], selection, None if time is None else time * SECOND, acked)
    except AlarmRaised as raised:
        return [*raised.about] if raised.code == TOPIC_ALARM else []
    return []


OLD, NEW = file(500, 10, 20, 21), file(0, 21, 30, 31)


def test_newer_files_before_older_ones_stop_the_table_until_somebody_decides() -> None:
    assert refused([OLD, NEW]) == ["t+0+0"]
    assert refused([file(700, 31, 40, 41), OLD, NEW, file(100, 31, 40, 41)]) == ["t+0+100"]
    assert refused([OLD, NEW, file(100, 31, 40, 41)], acked=["t+0+0"]) == []
    assert refused([OLD, NEW], acked=["t+1+0"]) == ["t+0+0"]


@pytest.mark.parametrize(
    "other",
    [
        file(0, 20, 30, 31),  # it begins within the times of the old one
        file(0, 21, 30, 21),  # it was not written later: messages were delivered again
        file(0, 21, 30, 31, sequence=7),  # it tells places in the log of the source
        ObjectFacts(SourceObject("t+0+0", 1, 1, 31 * SECOND), 0),  # nothing in it has a time
    ],
)
def test_other_files_raise_no_alarm(other: ObjectFacts) -> None:
    assert refused([OLD, other]) == []


def test_each_partition_is_compared_by_itself() -> None:
    assert refused([NEW, file(0, 10, 20, 21, partition=1)]) == []
    assert refused([NEW, OLD, file(0, 10, 20, 21, partition=1)]) == ["t+0+0"]


def test_a_file_that_comes_late_is_compared_with_what_the_table_has() -> None:
    reads = file(0, 21, 30, 5, sequence=READ_SEQUENCE)
    assert refused([NEW], "t+0+0", time=20) == ["t+0+0"]
    assert refused([reads], "t+0+0", time=20) == ["t+0+0"]
    assert refused([NEW], "t+0+0", time=21) == []
    assert refused([NEW], time=20) == []
    assert refused([NEW], "t+0+0", time=20, acked=["t+0+0"]) == []
    assert refused([NEW], "t+0+0") == []


@given(st.lists(st.integers(0, 9), min_size=1, max_size=8))
def test_a_sink_that_delivers_again_raises_no_alarm(steps: list[int]) -> None:
    """Each file is written after those before it, and has changes of some seconds, also of earlier ones."""
    files, now = [], 100
    for offset, back in enumerate(steps):
        now += 5
        files.append(file(offset, now - 5 * back, now - 5 * back + 4, now))
    assert refused(files) == []


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6, unique=True), st.integers(1, 40))
def test_each_new_topic_whose_offsets_lie_below_the_old_ones_raises_the_alarm(new: list[int], first: int) -> None:
    """This holds for any offsets; only files below one of the old topic are named."""
    old = [file(100 + offset, offset, offset, offset) for offset in range(first, first + 3)]
    made = [file(offset, 1000 + offset, 1000 + offset, 2000) for offset in sorted(new)]
    above = [file(500, 1100, 1100, 2100)]
    assert refused([*made, *old, *above]) == [made[-1].object.name]
