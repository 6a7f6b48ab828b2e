"""What a file's name says: full load or changes, and its place among the others."""

from __future__ import annotations

import re
from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.adapters.sources.dms.paths.date_folders import FORMS, find_period, folder_of
from lakeward.adapters.sources.dms.paths.file_names import FileName, Names, known_name, listed_from, read_name


def order(name: str) -> int:
    return known_name(name).order


@pytest.mark.parametrize(
    ("name", "is_load", "format_"),
    [
        *(
            (f"{name}.csv", True, "csv")
            for name in ("LOAD00000001", "SEGMENT1_LOAD00000001", "part_2026/LOAD00000001", "20261121/LOAD00000001")
        ),
        ("LOAD0000000A.csv.gz", True, "csv"),
        ("LOAD0000000a.parquet", True, "parquet"),
        ("a/b/SEGMENT2_LOAD0000000F.parquet", True, "parquet"),
        *(
            (name, False, "csv")
            for name in ("20141029-1134010000.csv", "20141029-113401.csv", "20141029-113401000.csv.gz")
        ),
        ("20141029-113401000.PARQUET", False, "parquet"),
        ("2026/11/21/20261121-100000000.csv", False, "csv"),
    ],
)
def test_names_that_dms_gives_are_read(name: str, is_load: bool, format_: str) -> None:
    found = known_name(name)
    assert (found.is_load, found.format) == (is_load, format_)


@pytest.mark.parametrize(
    "name",
    [
        *(
            "notes.csv",
            "LOAD00000001",
            "LOAD00000001.json",
            "LOAD00000001.csv.tmp",
            "LOAD0000000G.csv",
            "LOAD1.csv",
        ),
        *("LOAD000000001.csv", ".LOAD00000001.csv", "20141029.csv", "20141329-113401000.csv", "_SUCCESS", ""),
        *("20141029-253401000.csv", "20141029-113401000-copy.csv", "SEGMENT_LOAD00000001.csv"),
        *("SEGMENT1_20141029-113401000.csv", "part/20141029-113401000.csv", "2026/13/21/20261121-100000000.csv"),
    ],
)
def test_other_names_are_not(name: str) -> None:
    assert read_name(name) is None
    with pytest.raises(ValueError, match="no name that DMS gives"):
        known_name(name)


def test_the_last_load_comes_before_the_first_change() -> None:
    assert order("LOADFFFFFFFF.csv") < order("19700102-000000000.csv")


def test_changes_go_by_their_time_to_the_millisecond_then_by_their_counter() -> None:
    names = [
        "20141029-113401.csv",
        "20141029-1134010001.csv",
        "20141029-1134010002.parquet",
        "20141029-11340100010.csv.gz",
        "20141029-113401001.csv",
        "20141029-113402.csv",
        "20141030-000000.csv",
        "20151029-113401.csv",
    ]
    assert sorted(names, key=order) == names
    assert len({order(name) for name in names}) == len(names)


def test_a_clock_that_is_set_back_does_not_matter_to_the_name_in_utc() -> None:
    assert order("20261025-020000000.csv") - order("20261025-010000000.csv") == 3_600_000 << 20


@given(st.integers(0, 999), st.integers(0, 999_999), st.integers(0, 999), st.integers(0, 999_999))
def test_no_two_places_meet(millis: int, counter: int, other_millis: int, other_counter: int) -> None:
    one = order(f"20261029-113401{millis:03d}{counter}.csv")
    other = order(f"20261029-113401{other_millis:03d}{other_counter}.csv")
    assert (one < other) == ((millis, counter) < (other_millis, other_counter))


def test_hours_of_a_zone_that_is_ahead_of_the_names_are_told_apart() -> None:
    """`DatePartitionTimezone` of 14 hours ahead; a transaction may be some hours older than its file."""
    folders = [f"20261122{hour:02}" for hour in range(10, 23)]
    names = [f"{folder}/20261122-090000000.csv" for folder in folders]
    assert [order(name) for name in names] == sorted({order(name) for name in names})


SEGMENTS = ["", "SEGMENT1_", "SEGMENT12_", "p1/", "p2/", "P1/", "p1/SEGMENT1_", "p1/q/", "20261121/"]


def test_no_two_files_of_segments_have_one_place_and_each_counts_by_itself() -> None:
    names = [f"{segment}LOAD{counter:08X}.csv" for segment in SEGMENTS for counter in range(1, 40)]
    assert len({order(name) for name in names}) == len(names)
    for segment in SEGMENTS:
        own = [order(f"{segment}LOAD{counter:08X}.csv") for counter in range(1, 40)]
        assert own == list(range(own[0], own[0] + 39))


@given(st.text(min_size=1).filter(lambda text: "\n" not in text), st.integers(0, 2**32 - 1))
def test_every_part_of_a_full_load_comes_before_every_change_and_fits_64_bits(segment: str, counter: int) -> None:
    first_change = order("20000101-000000000.csv")
    for prefix in (f"{segment}/", "SEGMENT999999_", ""):
        assert -(2**62) <= order(f"{prefix}LOAD{counter:08X}.csv") < first_change


def test_the_place_of_a_segment_is_what_it_was() -> None:
    """It stands in tables: were it another, all would have to be loaded again."""
    assert order("part_2026/LOAD0000000A.csv") == -3_418_431_192_934_907_894


@given(st.datetimes(datetime(1970, 1, 2), datetime(2199, 12, 31)), st.sampled_from(FORMS))
def test_a_folder_has_one_form_at_the_most(moment: datetime, form: str) -> None:
    folder = folder_of(moment, form)
    assert [known for known in FORMS if find_period(folder, known) is not None] == [form]
    period = find_period(folder)
    assert period is not None
    assert folder_of(period.start, form) == folder


@given(
    st.lists(st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1)), min_size=2, max_size=6, unique=True),
    st.sampled_from(FORMS),
)
def test_files_in_date_folders_go_by_their_own_time(moments: list[datetime], form: str) -> None:
    unlike = {f"{m:%Y%m%d-%H%M%S}{m.microsecond // 1000:03}": m for m in moments}
    names = [f"{folder_of(moment, form)}/{name}.csv" for name, moment in sorted(unlike.items())]
    backwards = names[::-1]
    assert sorted(backwards, key=order) == names


def test_two_files_of_one_name_in_two_date_folders_go_by_the_date() -> None:
    for form in FORMS:
        days = [datetime(2026, 10, 31), datetime(2026, 11, 1)]
        names = [f"{folder_of(day, form)}/20261101-000001000.csv" for day in days]
        assert order(names[0]) < order(names[1])
        assert order(names[1]) < order(f"{folder_of(days[0], form)}/20261101-0000010001.csv")


def test_a_date_folder_of_another_form_than_was_set_is_none() -> None:
    names = Names(dates="DD-MM-YYYY")
    assert read_name("21-11-2026/20261121-100000000.csv", names) is not None
    assert read_name("2026-11-21/20261121-100000000.csv", names) is None


def declared(load: str | None = None, changes: str | None = None) -> Names:
    return Names(None, load and re.compile(load), changes and re.compile(changes))  # type: ignore[arg-type]


def test_a_pattern_says_what_is_a_full_load_and_how_it_counts() -> None:
    names = declared(load=r"full_(?P<counter>\d+)\.txt")
    assert known_name("full_12.txt", names) == FileName(is_load=True, order=12, format="csv")
    assert read_name("LOAD00000001.csv", names) is None
    assert known_name("20261121-100000000.csv", names).is_load is False
    by_hex = declared(load=r"(?P<hex>[0-9a-f]+)\.parquet")
    assert known_name("ff.parquet", by_hex) == FileName(is_load=True, order=255, format="parquet")


def test_a_full_load_need_not_count() -> None:
    names = declared(load=r".*\.csv")
    assert -(2**62) <= known_name("orders/a.csv", names).order < 0
    assert known_name("orders/a.csv", names).order != known_name("orders/b.csv", names).order


def test_changes_go_by_the_time_and_the_counter_that_a_pattern_names() -> None:
    names = declared(changes=r"d_(?P<time>\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?)_(?P<counter>\d+)\.csv")
    found = ["d_2026-11-21T10:00:00.5_1.csv", "d_2026-11-21T10:00:00.5_10.csv", "d_2026-11-21T10:00:00.51_2.csv"]
    assert [known_name(name, names).order for name in found] == [
        order("20261121-1000005001.csv"),
        order("20261121-10000050010.csv"),
        order("20261121-1000005102.csv"),
    ]
    assert read_name("d_2026-13-21T10:00:00_1.csv", names) is None


def test_a_group_of_a_pattern_that_holds_nothing_counts_as_0_and_one_without_a_number_takes_no_file() -> None:
    names = declared(changes=r"cdc-?(?P<counter>.*)\.csv")
    assert order("LOADFFFFFFFF.csv") < known_name("cdc.csv", names).order < known_name("cdc-1.csv", names).order
    assert read_name("cdc-new.csv", names) is None
    assert read_name("cdc-1_0.csv", names) is None
    assert read_name("cdc--1.csv", names) is None
    by_hex = declared(changes=r"(?P<hex>.*)\.csv")
    assert known_name("1f.csv", by_hex).order > known_name("a.csv", by_hex).order
    assert read_name("0x1f.csv", by_hex) is None


@given(
    first=st.datetimes(datetime(2001, 1, 1), datetime(2099, 1, 1)),
    later=st.integers(0, 10**7),
    zones=st.tuples(st.integers(-12, 14), st.integers(-12, 14)),
    form=st.sampled_from([form for form in FORMS if form.startswith("YYYY")]),
)
def test_later_files_sort_behind_the_start(first: datetime, later: int, zones: tuple[int, int], form: str) -> None:
    moments = first, first + timedelta(seconds=later)
    folders = [folder_of(moment + timedelta(hours=zone), form) for moment, zone in zip(moments, zones, strict=True)]
    files = [f"{moment:%Y%m%d-%H%M%S}000.csv" for moment in moments]
    one, other = ("/".join(parts) for parts in zip(folders, files, strict=True))
    start = listed_from(one)
    assert start is not None
    assert other >= start
    assert start <= "LOAD00000001.csv"


def test_changes_may_go_by_a_counter_alone() -> None:
    names = declared(changes=r"(?P<counter>\d+)\.csv")
    orders = [known_name(f"{counter}.csv", names).order for counter in (1, 2, 10)]
    assert orders == sorted(orders)
    assert order("LOADFFFFFFFF.csv") < orders[0]
    assert orders[-1] < 2**63
