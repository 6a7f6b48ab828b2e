"""Which objects a batch takes: in order, within limits, and none while there is a sign of loss."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from listings import alarm_of, applied, by_name, file, select

from lakeward.core.dimension import Ordered, Unbounded, Within
from lakeward.core.errors import SourceError
from lakeward.core.events import NO_SEQUENCE, Position, SourceOrder
from lakeward.core.ledger.full_loads import UNNAMED, Naming
from lakeward.core.ledger.objects import SourceObject, digest_of
from lakeward.core.ledger.selection import Limits, ObjectHistory, ObjectSelection, until_changed
from lakeward.core.merge.change_log import Record, object_watermark


def orders(selection: ObjectSelection) -> list[int]:
    return [item.order for item in selection.objects]


def test_a_batch_has_at_most_the_allowed_files_and_knows_what_remains() -> None:
    selection = select([file(n) for n in range(1, 6)], limits=Limits(files=2))
    assert (orders(selection), selection.files_left, selection.bytes_left) == ([1, 2], 3, 30)


def test_a_batch_has_at_most_the_allowed_bytes_and_at_least_one_file() -> None:
    listed = [file(1, size=100), *(file(n, size=5) for n in (2, 3, 4))]
    assert orders(select(listed, limits=Limits(bytes=10))) == [1]
    assert orders(select(listed, applied(listed[0]), Limits(bytes=10))) == [2, 3]


@given(st.lists(st.integers(1, 40), unique=True), st.integers(1, 5), st.integers(1, 60), st.randoms())
def test_batch_by_batch_each_object_is_selected_once_in_order(
    numbers: list[int], files: int, size: int, random: Random
) -> None:
    listed = [file(number, size=number) for number in numbers]
    random.shuffle(listed)
    known: list[SourceObject] = []
    selected: list[int] = []
    following: list[SourceObject] = []
    limits = Limits(files, size)
    while (selection := select(listed, applied(*known), limits)).objects:
        assert not known or [*selection.objects] == following
        following = [*selection.following(limits)]
        known += selection.objects
        selected += orders(selection)
    assert selected == sorted(numbers)
    assert following == []


def test_an_unseen_object_at_or_below_the_object_watermark_is_an_alarm() -> None:
    alarm = alarm_of([file(1), file(2), file(3)], applied(file(1), file(3), object_watermark=3))
    assert (alarm.code, "1 file appeared below the low watermark" in alarm.what) == ("LEDGER-001", True)
    assert "file2; nothing may come before file3 any more" in str(alarm.found)
    assert "Nothing was applied" in str(alarm.todo)


def test_an_unseen_object_above_the_object_watermark_is_selected_as_late() -> None:
    selection = select([file(n) for n in range(1, 5)], applied(file(1), file(3), object_watermark=1))
    assert (orders(selection), selection.late) == ([2, 4], ("file2",))


def record(batch: int, order: int, sequence: int) -> Record:
    place = Position(1, sequence, order, 1)
    return Record(batch, frozenset({order}), place, place)


def test_the_object_watermark_of_an_ordered_table_is_its_last_object() -> None:
    records = [record(1, 10, 5), record(2, 30, 6), record(3, 20, 7)]
    assert object_watermark(Ordered(), records, None) == 30
    assert object_watermark(Ordered(), [], None) is None


def test_the_object_watermark_of_a_table_with_a_lateness_lies_at_its_low_watermark() -> None:
    records = [record(1, 10, 5), record(2, 30, 7), record(3, 20, 6)]
    assert object_watermark(Within(1), records, None) is None
    assert object_watermark(Within(1), records, SourceOrder(1, 6)) == 20
    assert object_watermark(Unbounded(), records, None) is None


def test_no_object_may_appear_among_objects_without_times_once_there_are_times() -> None:
    records = [record(1, 10, NO_SEQUENCE), record(2, 20, NO_SEQUENCE), record(3, 30, 7)]
    for lateness in (Within(1), Unbounded()):
        assert object_watermark(lateness, records, None, by_times=True) == 20
        assert object_watermark(lateness, records, None) is None
    assert object_watermark(Within(1), records, SourceOrder(1, 7), by_times=True) == 30
    unreadable = [*records, record(4, 40, NO_SEQUENCE)]
    assert object_watermark(Within(1), unreadable, None, by_times=True) == 20, "no time of a batch can be read"


def test_a_seen_object_of_another_size_is_an_alarm() -> None:
    alarm = alarm_of([file(1, size=11)], applied(file(1, size=10)))
    assert (alarm.code, "file1 was rewritten after it was applied" in alarm.what) == ("LEDGER-002", True)
    assert alarm.found == "it had 10 bytes when it was applied and has 11 now"


def test_a_table_that_begins_behind_an_archived_object_is_an_alarm_unless_a_full_load_is_there() -> None:
    for listed in ([file(2)], []):
        alarm = alarm_of(listed, keeps=False, archived="file1")
        assert (alarm.code, alarm.about) == ("LEDGER-006", ("file1",))
        assert "the archive has files of it that it never applied" in alarm.what
    load = Naming(is_load=lambda name: name == "file2")
    acked = ObjectHistory(acknowledged={"LEDGER-006": frozenset({"file1"})})
    for history, naming in ((ObjectHistory(), load), (acked, UNNAMED)):
        assert orders(select([file(2)], history, naming=naming, keeps=False, archived="file1")) == [2]


@pytest.mark.parametrize(
    ("listed", "words"),
    [
        ([file(3, name="n5")], "n5 was applied at the place 1, and is at 3 now"),
        ([file(2, name="n2")], "n2 is at the place at which n6 was applied"),
    ],
)
def test_names_with_another_order_than_before_stop_the_table(listed: list[SourceObject], words: str) -> None:
    """Stored rows have positions in the earlier order: new ones would count as older, newer, or duplicates."""
    object_history = applied(file(1, name="n5"), file(2, name="n6"))
    with pytest.raises(SourceError) as refused:
        select(listed, object_history, keeps=False)
    assert refused.value.found == words
    acked = replace(object_history, acknowledged={"LEDGER-001": frozenset(item.name for item in listed)})
    assert select(listed, acked, keeps=False).objects == ()


def test_a_seen_object_that_was_only_touched_is_no_alarm() -> None:
    assert select([file(1, modified=5)], applied(file(1, modified=4))) == ObjectSelection()


def test_two_objects_of_one_place_stop_the_table() -> None:
    with pytest.raises(SourceError, match="cannot be told from their names") as refused:
        select([file(1, name="a.csv"), file(1, name="a.csv.gz")])
    assert refused.value.found == "found a.csv and a.csv.gz"


def test_an_object_that_changed_while_it_was_read_waits_with_all_behind_it() -> None:
    selection = ObjectSelection((file(1), file(2), file(3)), files_left=1, bytes_left=7, unrelated_files=("notes",))
    now = by_name(file(1), file(2, size=99), file(3))
    left = (file(2), file(3))
    kept = ObjectSelection((file(1),), files_left=3, bytes_left=27, unrelated_files=("notes",), remaining=left)
    assert until_changed(selection, now) == kept
    assert until_changed(selection, by_name(*selection.objects)) == selection
    assert until_changed(selection, {}).objects == ()


def test_the_digest_of_a_batch_depends_on_its_versions_and_not_on_their_order() -> None:
    one, other = file(1), file(2)
    assert digest_of([one, other]) == digest_of([other, one]) != digest_of([one, file(2, size=11)])
