"""What a file's name says: full load or changes, and its place among the others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.adapters.dms.names import known_name, read_name


def order(name: str) -> int:
    return known_name(name).order


@pytest.mark.parametrize(
    ("name", "is_load", "format_"),
    [
        ("LOAD00000001.csv", True, "csv"),
        ("LOAD0000000A.csv.gz", True, "csv"),
        ("LOAD0000000a.parquet", True, "parquet"),
        ("20141029-1134010000.csv", False, "csv"),
        ("20141029-113401.csv", False, "csv"),
        ("20141029-113401000.csv.gz", False, "csv"),
        ("20141029-113401000.PARQUET", False, "parquet"),
    ],
)
def test_names_that_dms_gives_are_read(name: str, is_load: bool, format_: str) -> None:
    found = known_name(name)
    assert (found.is_load, found.format) == (is_load, format_)


@pytest.mark.parametrize(
    "name",
    [
        "notes.csv",
        "LOAD00000001",
        "LOAD00000001.json",
        "LOAD00000001.csv.tmp",
        "LOAD0000000G.csv",
        "LOAD1.csv",
        "LOAD000000001.csv",
        ".LOAD00000001.csv",
        "20141029.csv",
        "20141329-113401000.csv",
        "20141029-253401000.csv",
        "20141029-113401000-copy.csv",
        "_SUCCESS",
        "",
    ],
)
def test_other_names_are_not(name: str) -> None:
    assert read_name(name) is None
    with pytest.raises(ValueError, match="no name that DMS gives"):
        known_name(name)


def test_full_loads_count_in_hexadecimal() -> None:
    loads = ["LOAD00000009.csv", "LOAD0000000A.csv", "LOAD0000000F.csv", "LOAD00000010.csv"]
    assert [order(name) for name in loads] == [9, 10, 15, 16]


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
