"""Ranges of offsets and the names of their files: each says the other, and the source of files orders them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.adapters.sources.files.paths.file_names import FileNames
from lakeward.adapters.sources.kafka.offset_ranges import NAMES, OffsetRange
from lakeward.adapters.sources.landing.places import Part

LETTERS = st.sampled_from("abzAZ09._-")
OFFSETS = st.integers(0, 2**43)


@st.composite
def ranges(draw: st.DrawFn) -> OffsetRange:
    topic = draw(st.text(LETTERS, min_size=1, max_size=20))
    id_ = draw(st.text(st.sampled_from("azAZ09_-"), min_size=1, max_size=22))
    start, more = draw(OFFSETS), draw(st.integers(1, 1000))
    return OffsetRange(topic, id_, draw(st.integers(0, 99_999)), start, start + more)


@given(ranges())
def test_a_name_says_its_range(one: OffsetRange) -> None:
    assert OffsetRange.read(one.name) == one
    assert one.name[0] not in "._", "a hidden file is never taken"


@given(ranges(), ranges())
def test_the_source_of_files_orders_ranges_by_partition_and_offset(one: OffsetRange, other: OffsetRange) -> None:
    names = FileNames(re.compile(NAMES), is_messages=True)
    found = [names.read(each.name, Part("shop/orders")) for each in (one, other)]
    assert [names.partition(each.name) for each in (one, other)] == [str(one.partition), str(other.partition)]
    assert None not in found
    by_order = [said.order for said in found if said is not None]
    by_place = [(each.partition, each.start) for each in (one, other)]
    assert (by_order[0] < by_order[1]) == (by_place[0] < by_place[1])


@pytest.mark.parametrize("name", ["a.json", "t+0+1-2+id.jsonl", "t+0+5+id.json", "t/u+0+1-2+id.json", ".0.part"])
def test_other_names_say_nothing(name: str) -> None:
    assert OffsetRange.read(name) is None


@pytest.mark.parametrize(("id_", "end"), [("a+b", 5), ("a/b", 5), ("", 5), ("a", 4), ("a", 3)])
def test_what_no_name_could_say_is_no_range(id_: str, end: int) -> None:
    with pytest.raises(ValueError, match="no range"):
        OffsetRange("t", id_, 0, 4, end)
