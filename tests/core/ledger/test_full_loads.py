"""When a full load counts as complete, and which objects belong to it: an incomplete one never counts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lakeward.core.dimension import Older
from lakeward.core.errors import AlarmRaised, SourceError
from lakeward.core.ledger.full_loads import Load, LoadStatus, Naming
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import ObjectHistory, ObjectSelection, select_objects

NAMING = Naming(
    is_load=lambda name: name.startswith("LOAD"),
    number=lambda name: ("", int(name[4:])) if name.startswith("LOAD") else None,
    written=lambda item: item.order,
)
ASKED = Load(epoch=2, since=1, cut=50)
SNAPSHOT = Load(epoch=2, settles=10)


def load(number: int, modified: int = 100) -> SourceObject:
    return SourceObject(f"LOAD{number}", number, 10, modified)


def change(order: int, modified: int | None = None) -> SourceObject:
    return SourceObject(f"change{order}", order, 10, order if modified is None else modified)


def object_history(*seen: SourceObject, load: Load = ASKED, **rest: Any) -> ObjectHistory:
    last = seen[-1].name if seen else None
    return ObjectHistory(applied={item.name: item for item in seen}, last_applied=last, load=load, **rest)


def select_loads(listed: list[SourceObject], known: ObjectHistory) -> ObjectSelection:
    return select_objects("shop.item", listed, known, naming=NAMING)


APPLIED = [load(1, 5), load(2, 5), change(40)]


def test_nothing_is_applied_until_the_load_is_there() -> None:
    found = select_loads([*APPLIED, change(60)], object_history(*APPLIED))
    assert (found.objects, found.load_epoch) == ((), None)
    assert found.awaited is not None
    assert (found.awaited.objects, found.awaited.behind) == (0, 1)


def test_a_load_is_complete_with_the_first_changes_that_were_written_behind_all_of_it() -> None:
    half = [load(1), load(2, 5), change(40), change(60)]
    assert not select_loads(half, object_history(*APPLIED)).objects
    assert not select_loads([*half, change(99)], object_history(*APPLIED)).objects
    assert not select_loads([*half, change(101, 90)], object_history(*APPLIED)).objects
    whole = select_loads([*half, change(101)], object_history(*APPLIED))
    assert (whole.objects, whole.load_epoch) == ((load(1),), 2)
    assert (whole.files_left, [item.name for item in whole.remaining]) == (2, ["change60", "change101"])


def test_only_the_objects_that_an_operator_declared_are_the_complete_load() -> None:
    declared_complete = replace(ASKED, completed_versions=frozenset({load(1).version}))
    assert select_loads([load(1)], object_history(*APPLIED, load=declared_complete)).objects == (load(1),)
    for listed in ([load(1), load(2)], [load(1, 101)], []):
        found = select_loads(listed, object_history(*APPLIED, load=declared_complete))
        assert not found.objects
        assert found.awaited is not None
        assert "is not what was there" in found.awaited.until


def test_changes_at_the_cut_are_of_the_earlier_epoch() -> None:
    waiting = {item.name: item for item in (change(50), change(51))}
    found = select_loads([load(1), change(50), change(51)], object_history(*APPLIED, waiting=waiting))
    assert found.superseded == ("change50",)
    assert [item.name for item in found.remaining] == ["LOAD1", "change51"]
    with pytest.raises(AlarmRaised) as caught:
        select_loads([load(1), change(101)], object_history(*APPLIED, waiting=waiting))
    assert (caught.value.code, caught.value.about) == ("LEDGER-003", ("change51",))


def test_a_complete_load_with_a_gap_is_an_alarm() -> None:
    with pytest.raises(AlarmRaised) as caught:
        select_loads([load(1), load(3), change(101)], object_history(*APPLIED))
    assert caught.value.code == "LEDGER-004"


def test_an_object_that_appears_behind_a_complete_load_is_an_alarm() -> None:
    of_epoch = ObjectHistory(
        applied={"LOAD1": load(1)},
        last_applied="LOAD1",
        cut=50,
        earlier_versions=frozenset(i.version for i in APPLIED),
    )
    listed = [load(1), load(2, 5), change(40), change(45), change(60)]
    assert select_loads(listed, of_epoch).objects == (change(60),)
    with pytest.raises(AlarmRaised) as caught:
        select_loads([*listed, load(3)], of_epoch)
    assert (caught.value.code, caught.value.about) == ("LEDGER-001", ("LOAD3",))


# What the task tells.

S = 1_000_000


def with_status(began: int, ended: int | None) -> Load:
    return replace(ASKED, status=LoadStatus(began=began * S, ended=None if ended is None else ended * S))


def test_a_load_is_complete_once_its_task_says_so() -> None:
    listed = [load(1, 100 * S), load(2, 110 * S)]
    found = select_loads(listed, object_history(*APPLIED, load=with_status(100, 110)))
    assert (found.objects, found.load_epoch) == (tuple(listed), 2)


@pytest.mark.parametrize(
    ("began", "ended", "words"), [(100, None, "has not ended"), (10, 20, "another"), (105, 120, "another")]
)
def test_the_status_of_another_load_or_of_a_part_completes_no_load(
    began: int, ended: int | None, words: str
) -> None:
    """The status is of a load that ended before these files, or of one that began after a file."""
    found = select_loads(
        [load(1, 100 * S), load(2, 110 * S)], object_history(*APPLIED, load=with_status(began, ended))
    )
    assert not found.objects
    assert found.awaited is not None
    assert words in found.awaited.until


def test_a_smaller_snapshot_is_complete_once_its_task_says_so() -> None:
    known = object_history(*NIGHT, load=replace(SNAPSHOT, status=LoadStatus(began=90 * S, ended=110 * S)))
    assert select_loads([load(1, 100 * S), load(2, 5)], known).objects == (load(1, 100 * S),)
    assert not select_loads(NIGHT, known).objects, "nothing of it is there"


# Snapshots.

NIGHT = [load(1, 5), load(2, 5)]


def settled(listed: list[SourceObject], minutes: int) -> ObjectSelection:
    """List twice, so far apart."""
    first = select_loads(listed, object_history(*NIGHT, load=SNAPSHOT, now=1000))
    return select_loads(listed, object_history(*NIGHT, load=SNAPSHOT, awaited=first.awaited, now=1000 + minutes))


def test_a_snapshot_is_complete_once_every_file_is_written_anew_and_nothing_changes() -> None:
    assert settled([load(1), load(2)], 10).objects == (load(1), load(2))
    assert settled([load(1), load(2), load(3)], 10).load_epoch == 2
    assert not settled([load(1), load(2)], 9).objects
    assert not select_loads([load(1), load(2)], object_history(*NIGHT, load=SNAPSHOT, now=10**9)).objects, (
        "it was looked at once"
    )


def test_a_snapshot_that_need_not_settle_is_complete_once_every_file_is_written_anew() -> None:
    at_once = replace(SNAPSHOT, settles=0)
    assert select_loads([load(1), load(2)], object_history(*NIGHT, load=at_once)).objects == (load(1), load(2))
    assert not select_loads([load(1)], object_history(*NIGHT, load=at_once)).objects
    assert not select_loads(NIGHT, object_history(*NIGHT, load=at_once)).objects
    assert select_daily([part(1), part(2)], object_history(part(1), load=at_once)).objects == (part(2),)


def test_half_a_snapshot_is_never_complete() -> None:
    for half in ([load(1), load(2, 5)], [load(1)]):
        found = settled(half, 10**6)
        assert not found.objects
        assert found.awaited is not None
        assert found.awaited.lacking == ("LOAD2",)
        assert found.awaited.is_held_up


def test_a_snapshot_that_changes_in_between_settles_anew() -> None:
    first = select_loads([load(1), load(2)], object_history(*NIGHT, load=SNAPSHOT, now=0)).awaited
    grown = select_loads([load(1), load(2), load(3)], object_history(*NIGHT, load=SNAPSHOT, awaited=first, now=20))
    assert not grown.objects
    assert not select_loads(
        [load(1), load(2), load(3)], object_history(*NIGHT, load=SNAPSHOT, awaited=grown.awaited, now=29)
    ).objects
    assert select_loads(
        [load(1), load(2), load(3)], object_history(*NIGHT, load=SNAPSHOT, awaited=grown.awaited, now=30)
    ).objects


def test_between_two_snapshots_nothing_waits() -> None:
    found = select_loads(NIGHT, object_history(*NIGHT, load=SNAPSHOT))
    assert found.awaited is not None
    assert not found.awaited.is_pending


def test_an_empty_folder_is_an_alarm_once_it_has_settled() -> None:
    assert not settled([], 9).objects
    with pytest.raises(AlarmRaised) as caught:
        settled([], 10)
    assert caught.value.code == "LEDGER-005"


def test_changes_among_snapshots_are_refused() -> None:
    with pytest.raises(SourceError, match="snapshots"):
        select_loads([*NIGHT, change(60)], object_history(*NIGHT, load=SNAPSHOT))


DAILY = replace(NAMING, is_load=lambda _: True, snapshot=lambda name: name.split("/")[0])


def part(day: int, number: int = 1, modified: int = 100) -> SourceObject:
    return SourceObject(f"{day}/{number}", 10 * day + number, 10, modified)


def select_daily(listed: list[SourceObject], known: ObjectHistory) -> ObjectSelection:
    return select_objects("shop.item", listed, known, naming=DAILY)


def test_a_named_snapshot_is_complete_with_the_next_one() -> None:
    """Those that were applied may stay or go: names are not written again."""
    applied = [part(1, 1), part(1, 2)]
    waits = [part(2, 1), part(2, 2)]
    known = object_history(*applied, load=SNAPSHOT)
    assert not select_daily([*applied, *waits], known).objects
    found = select_daily([*applied, *waits, part(3)], known)
    assert (found.objects, found.load_epoch, found.files_left) == (tuple(waits), 2, 1)
    assert found.remaining == (part(3),)
    assert not select_daily([*waits, part(3, modified=99)], known).objects


def test_a_snapshot_older_than_the_table_stops_it() -> None:
    known = object_history(part(2), load=SNAPSHOT)
    with pytest.raises(AlarmRaised, match="older than what the table shows") as raised:
        select_daily([part(1), part(2), part(3)], known)
    assert raised.value.code == "LEDGER-001"
    acked = replace(known, acknowledged={"LEDGER-001": frozenset({"1/1"})})
    assert select_daily([part(1), part(2), part(3), part(4)], acked).objects == (part(3),)


DATED = replace(DAILY, is_dated=lambda _: True)
SPLICES, SKIPS = (replace(SNAPSHOT, epoch=3, older=older) for older in (Older.SPLICE, Older.SKIP))
BOTH = [part(1, 1, 5), part(1, 2, 5)]
NEXT = [part(2, 1, 6), part(2, 2, 6)]


def declared_complete(
    listed: list[SourceObject], known: ObjectHistory, naming: Naming = DATED, *, keeps: bool = True
) -> ObjectSelection:
    """Select what an operator declares to be the complete load."""
    found = select_objects("shop.item", listed, known, naming=naming, keeps=keeps)
    assert found.awaited is not None
    about = frozenset(item.version for item in (*found.objects, *found.remaining)[: found.awaited.objects])
    whole = replace(known, load=replace(known.load or SNAPSHOT, completed_versions=about))
    return select_objects("shop.item", listed, whole, naming=naming, keeps=keeps)


@pytest.mark.parametrize("older", Older)
@pytest.mark.parametrize(
    "now",
    [[part(1), BOTH[1]], [BOTH[0], part(1, 2)], [*BOTH, part(1, 3)], [part(1), part(1, 2)]],
    ids=["first", "last", "late", "all"],
)
def test_all_files_of_an_applied_folder_are_selected_once_one_has_changed(
    older: Older, now: list[SourceObject]
) -> None:
    known = object_history(*BOTH, load=replace(SNAPSHOT, older=older))
    assert not select_daily(now, known).objects, "it has not settled"
    found = declared_complete(now, known)
    assert (found.objects, found.load_epoch, found.excluded) == (tuple(now), 2, ())
    with_next = select_daily([*now, part(2, 1, 100)], known)
    assert (with_next.objects, with_next.remaining) == (tuple(now), (part(2, 1, 100),))


def test_an_older_folder_with_a_changed_file_is_inserted_or_skipped_as_a_whole() -> None:
    left = frozenset(item.version for item in BOTH)
    listed = [BOTH[0], part(1, 2), *NEXT]
    spliced = declared_complete(listed, object_history(*NEXT, earlier_versions=left, load=SPLICES))
    assert (spliced.objects, spliced.load_epoch) == ((BOTH[0], part(1, 2)), 2)
    skipped = select_daily(listed, object_history(*NEXT, earlier_versions=left, load=SKIPS))
    assert (skipped.remaining, skipped.excluded) == ((), (part(1, 2),))
    with pytest.raises(AlarmRaised) as raised:
        declared_complete(listed, object_history(*NEXT, earlier_versions=left, load=SPLICES), DAILY)
    assert (raised.value.code, raised.value.about) == ("LEDGER-001", ("1/2",))


def test_a_folder_of_an_earlier_epoch_is_older_even_without_an_order_in_its_name() -> None:
    """Its files are numbered after all others then: their earlier numbers are not known any more."""
    left = frozenset(item.version for item in BOTH)
    listed = [*NEXT, replace(BOTH[0], order=23), replace(BOTH[1], order=24, modified=100)]
    with pytest.raises(AlarmRaised) as raised:
        select_daily(listed, object_history(*NEXT, earlier_versions=left, load=SNAPSHOT))
    assert raised.value.about == ("1/2",)
    anew = [*NEXT, *(replace(item, order=item.order + 12, modified=100) for item in BOTH)]
    with pytest.raises(AlarmRaised, match="older than what the table shows") as raised:
        declared_complete(anew, object_history(*NEXT, earlier_versions=left, load=SNAPSHOT))
    assert raised.value.about == ("1/1", "1/2"), "written anew whole: nothing tells whether it is newer"
    assert "was written anew or touched since it was applied before 2/" in str(raised.value.found)


@pytest.mark.parametrize("applied", [[], [part(1)]], ids=["both are new", "one was applied"])
def test_two_snapshots_of_one_time_stop_the_table(applied: list[SourceObject]) -> None:
    other = SourceObject("1b/1", part(1).order, 10, 100)
    with pytest.raises(SourceError, match="the order of two snapshots cannot be told from their names") as refused:
        select_daily([part(1), other], object_history(*applied, load=SNAPSHOT))
    assert refused.value.found == "found 1 and 1b, which tell the same time or number"


@pytest.mark.parametrize("has_left", [False, True], ids=["of this epoch", "of one before"])
def test_a_folder_without_an_applied_file_waits_for_an_operator(has_left: bool) -> None:
    if has_left:
        known = object_history(*NEXT, earlier_versions=frozenset(item.version for item in BOTH), load=SPLICES)
    else:
        known = object_history(*BOTH, load=SNAPSHOT)
    others = [part(3, 1, 10**9)]
    for now in ([part(1, 2)], [BOTH[0], part(1, 3)]):
        found = select_objects("shop.item", [*now, *others], known, naming=DATED)
        later = replace(known, now=10**6, awaited=found.awaited)
        again = select_objects("shop.item", [*now, *others], later, naming=DATED)
        assert again.awaited is not None
        assert (again.objects, again.awaited.is_held_up) == ((), True)
        gone = "1/1" if now[0].name == "1/2" else "1/2"
        assert again.awaited.until.startswith(
            f"{gone} of it was applied, and is gone: put it back, or if it is whole"
        )
        assert declared_complete([*now, *others], known).objects == tuple(now)


def test_a_folder_under_other_names_is_a_new_one_only_without_an_archive() -> None:
    known, anew = object_history(*BOTH, load=SNAPSHOT), [part(1, 3), part(1, 4)]
    first = select_objects("shop.item", anew, known, naming=DATED)
    later = replace(known, now=10**6, awaited=first.awaited)
    assert select_objects("shop.item", anew, later, naming=DATED).objects == tuple(anew)
    kept = select_objects("shop.item", anew, later, naming=DATED, keeps=False)
    assert kept.awaited is not None
    assert (kept.objects, kept.awaited.lacking) == ((), ("1/1", "1/2")), "those may be in the archive"
    assert declared_complete(anew, known, keeps=False).objects == tuple(anew)


def test_a_snapshot_is_the_first_if_no_other_one_was_ever_applied() -> None:
    assert declared_complete([part(1)], object_history(load=SNAPSHOT)).is_first
    assert declared_complete([part(1)], object_history(part(1, modified=5), load=SNAPSHOT)).is_first
    assert not declared_complete([part(1), part(2)], object_history(part(1), load=SNAPSHOT)).is_first
    assert not declared_complete(
        [part(2)], object_history(earlier_versions=frozenset({part(1).version}), load=SNAPSHOT)
    ).is_first
