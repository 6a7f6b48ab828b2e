"""Signs of loss in a listing: each alarm is raised where it should be, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

import pytest
from listings import alarm_of, applied, by_name, file, select

from lakeward.core.errors import AlarmRaised
from lakeward.core.ledger.full_loads import Naming
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import NOTHING_SEEN, ObjectHistory, find_touched, lacks_applied_objects


def acknowledged(known: ObjectHistory, alarm: AlarmRaised) -> ObjectHistory:
    """Return the object history after an operator acknowledged an alarm."""
    acked = {**known.acknowledged, alarm.code: known.acknowledged_names(alarm.code) | set(alarm.about)}
    return replace(known, acknowledged=acked)


# LEDGER-001


def test_only_the_acknowledged_late_object_is_excluded() -> None:
    known = applied(file(3), object_watermark=3)
    listed = [file(1), file(3), file(4)]
    alarm = alarm_of(listed, known)
    assert (alarm.code, alarm.about) == ("LEDGER-001", ("file1",))
    selection = select(listed, acknowledged(known, alarm))
    assert (selection.objects, selection.excluded) == ((file(4),), (file(1),))
    assert alarm_of([*listed, file(2)], acknowledged(known, alarm)).about == ("file2",)


# LEDGER-002


def test_an_object_of_equal_size_and_another_content_was_rewritten() -> None:
    known = applied(file(1, etag="a"), file(2))
    alarm = alarm_of([file(1, modified=5, etag="b"), file(2)], known)
    assert (alarm.code, alarm.found) == ("LEDGER-002", "it has 10 bytes as before, and another content")
    assert select([file(1, modified=5, etag="a"), file(2, etag="b")], known).checked == {"file1": 5}


def test_content_is_compared_once_where_only_the_time_differs() -> None:
    known = applied(file(1, etag="a"), file(2, etag="a"), file(3), file(4, etag="a"), file(5, etag="a"))
    listed = [file(1), *(file(n, modified=5) for n in (2, 3, 4)), file(5, modified=5, size=11), file(6)]
    assert find_touched(listed, known) == [file(2, modified=5), file(4, modified=5)]
    compared = applied(*known.applied.values(), checked={"file4": 5, "file2": 4})
    assert find_touched(listed, compared) == [file(2, modified=5)]
    assert find_touched([file(2, modified=5, etag="b")], known) == []


def test_an_acknowledged_rewritten_object_is_an_alarm_when_it_is_rewritten_again() -> None:
    known = applied(file(1), file(2))
    alarm = alarm_of([file(1, size=11), file(2)], known)
    after = acknowledged(known, alarm)
    assert select([file(1, size=11), file(2)], after).objects == ()
    assert alarm_of([file(1, size=12), file(2)], after).about == ("file1 12 0",)
    assert find_touched([file(1, size=11), file(2)], after) == []


# LEDGER-003


def test_an_object_that_goes_before_it_is_applied_is_an_alarm() -> None:
    known = applied(file(1), waiting=by_name(file(3), file(2)))
    alarm = alarm_of([file(1), file(4)], known)
    assert (alarm.code, alarm.about) == ("LEDGER-003", ("file2", "file3"))
    assert select([file(1), file(4)], acknowledged(known, alarm)).objects == (file(4),)


def test_an_object_that_waits_or_was_applied_meanwhile_is_not_gone() -> None:
    assert select([file(1), file(2)], applied(file(1), waiting=by_name(file(2)))).objects == (file(2),)
    assert select([file(1)], applied(file(1), file(2), waiting=by_name(file(2)))).objects == ()


def test_an_object_before_the_start_of_the_listing_is_not_gone() -> None:
    """Folders may have other names since: a complete listing finds their objects."""
    known = applied(
        file(1), file(3), object_watermark=3, start="file3", waiting={"a4": replace(file(4), name="a4")}
    )
    assert select([file(3)], known).objects == ()


def test_an_object_below_the_watermark_is_not_gone() -> None:
    known = applied(file(1), file(3), object_watermark=3, start="file3", waiting=by_name(file(2)))
    assert select([file(3)], known).objects == ()
    later = applied(file(1), file(3), object_watermark=3, start="file3", waiting=by_name(file(4)))
    assert alarm_of([file(3)], later).about == ("file4",)


# LEDGER-004


def number(name: str) -> tuple[str, int] | None:
    """Number files named `series/number`."""
    series, _, digits = name.partition("/")
    return (series, int(digits)) if digits else None


NUMBERED = Naming(number=number)


def load(*numbers: int, series: str = "load") -> list[SourceObject]:
    first = 0 if series == "load" else 100
    return [file(first + n, f"{series}/{n}") for n in numbers]


@pytest.mark.parametrize(
    ("listed", "about"),
    [(load(1, 2, 4), "load/4"), (load(2), "load/2"), (load(1, 2) + load(1, 3, series="other"), "other/3")],
)
def test_a_number_that_is_missing_is_an_alarm(listed: list[SourceObject], about: str) -> None:
    alarm = alarm_of(listed, NOTHING_SEEN, naming=NUMBERED)
    assert (alarm.code, alarm.about) == ("LEDGER-004", (about,))
    assert select(listed, acknowledged(NOTHING_SEEN, alarm), naming=NUMBERED).objects == tuple(listed)


def test_numbers_that_follow_each_other_are_no_gap() -> None:
    assert select(load(1, 2, 3), naming=NUMBERED).objects == tuple(load(1, 2, 3))
    known = applied(*load(1, 2))
    assert select(load(3), known, naming=NUMBERED, keeps=False).objects == tuple(load(3))
    listed = [*load(1), file(50, "changes")]
    assert select(listed, naming=NUMBERED).objects == tuple(listed)


def test_a_gap_in_applied_objects_is_no_gap_for_later_ones() -> None:
    known = applied(*load(1, 3))
    changes = file(50, "changes")
    assert select([*load(1, 3), changes], known, naming=NUMBERED).objects == (changes,)
    assert select(load(1, 3, 4), known, naming=NUMBERED).objects == tuple(load(4))
    assert alarm_of(load(1, 3, 6), known, naming=NUMBERED).found == "2 files before load/6 are missing"


def test_an_acknowledged_gap_does_not_cover_the_next_one() -> None:
    known = acknowledged(NOTHING_SEEN, alarm_of(load(1, 3), NOTHING_SEEN, naming=NUMBERED))
    assert alarm_of(load(1, 3, 5), known, naming=NUMBERED).about == ("load/5",)


# LEDGER-005


def test_a_table_without_any_of_its_applied_objects_stops() -> None:
    known = applied(file(1), file(2))
    alarm = alarm_of([], known)
    assert (alarm.code, "its folder is empty" in str(alarm.found)) == ("LEDGER-005", True)
    assert "its folder has 1 new file" in str(alarm_of([file(3)], known).found)


def test_an_acknowledged_empty_folder_is_an_alarm_when_it_is_emptied_again() -> None:
    known = acknowledged(applied(file(1), file(2)), alarm_of([], applied(file(1), file(2))))
    assert select([file(3)], known).objects == (file(3),)
    later = ObjectHistory(
        applied=by_name(file(1), file(2), file(3)), last_applied="file3", acknowledged=known.acknowledged
    )
    assert select([file(3)], later).objects == ()
    assert alarm_of([], later).code == "LEDGER-005"


def test_a_new_folder_or_one_with_an_archive_is_not_emptied() -> None:
    assert select([]).objects == ()
    assert select([], applied(file(1)), keeps=False).vanished == ()


def test_an_empty_partial_listing_asks_for_a_complete_one() -> None:
    known = applied(file(1), file(2), start="file2")
    assert lacks_applied_objects([file(3)], known)
    assert not lacks_applied_objects([file(2)], known)
    assert not lacks_applied_objects([], applied(file(1)))


# What is no alarm.


def test_applied_objects_that_go_and_come_back_are_reported_once() -> None:
    known = applied(file(1), file(2), file(3), vanished=frozenset({"file2"}))
    assert select([file(3)], known).vanished == ("file1",)
    back = select([file(2), file(3)], known)
    assert (back.returned, back.vanished) == (("file2",), ("file1",))


def test_an_applied_object_outside_of_the_archive_is_a_leftover() -> None:
    selection = select([file(1), file(2)], applied(file(1)), keeps=False)
    assert (selection.leftovers, selection.objects) == ((file(1),), (file(2),))
