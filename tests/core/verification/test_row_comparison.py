"""Rows are compared by key: ranges cover all keys, and differences are found for any ranges."""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.core.verification.row_comparison import Kind, RowDigest, Summary, choose_bounds, compare_rows

Side = list[tuple[int, int]]

HASHES = st.integers(0, 2) | st.integers(-(2**63), 2**63 - 1)
ROWS = st.lists(st.tuples(st.integers(0, 30), HASHES), max_size=40)


def digests(side: Side) -> list[RowDigest]:
    return [RowDigest(key, f'["{key}"]', hash_) for key, hash_ in side]


def summary(side: Side, key: int) -> Summary:
    hashes = [hash_ for own, hash_ in side if own == key]
    return Summary(len(hashes), sum(hashes))


@given(keys=st.lists(st.integers(0, 50)), ranges=st.integers(1, 20))
def test_ranges_are_about_equally_large_and_at_most_the_allowed_number(keys: list[int], ranges: int) -> None:
    bounds = choose_bounds(keys, ranges)
    assert list(bounds) == sorted({*bounds})
    assert len(bounds) < ranges or not keys
    sizes = Counter(bisect_right(bounds, key) for key in {*keys})
    assert len(sizes) == len(bounds) + bool(keys), "no range is empty"
    assert not keys or max(sizes.values()) <= -(-len({*keys}) // ranges)


@given(source=ROWS, table=ROWS, ranges=st.integers(1, 20), most=st.integers(1, 50))
def test_differing_keys_are_those_whose_rows_differ(source: Side, table: Side, ranges: int, most: int) -> None:
    found = compare_rows(digests(source), digests(table), ranges=ranges, most=most)
    keys = sorted({key for key, _ in (*source, *table)})
    unequal = [key for key in keys if summary(source, key) != summary(table, key)]
    # Of sums that are equal by chance nothing can be told: hashes of the tests are small on purpose.
    named = {one.key for one in found.differences}
    assert named <= {f'["{key}"]' for key in unequal}
    assert (found.source_rows, found.table_rows) == (len(source), len(table))
    assert sum(one.source.hash for one in found.ranges) == sum(hash_ for _, hash_ in source)
    assert len(found.differences) == min(most, found.differing)
    assert found.unnamed == found.differing - len(found.differences)
    if all(not one.is_equal for one in found.ranges):
        assert found.differing == len(unequal)


@given(rows=ROWS, ranges=st.integers(1, 20), data=st.data())
def test_the_order_of_rows_does_not_matter_and_one_change_is_found(
    rows: Side, ranges: int, data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(rows))
    assert compare_rows(digests(rows), digests(shuffled), ranges=ranges).differing == 0
    if not rows:
        return
    (key, hash_), *others = shuffled
    for altered in ([*others], [*shuffled, (key, 7)], [*others, (key, hash_ + 1)]):
        found = compare_rows(digests(rows), digests(altered), ranges=ranges)
        assert [one.key for one in found.differences] == [f'["{key}"]']
        assert sum(not one.is_equal for one in found.ranges) == 1


@pytest.mark.parametrize(
    ("source", "table", "kind"),
    [
        ([(1, 5)], [], Kind.MISSING),
        ([], [(1, 5)], Kind.EXTRA),
        ([(1, 5)], [(1, 6)], Kind.CHANGED),
        ([(1, 5)], [(1, 5), (1, 5)], Kind.REPEATED),
        ([(1, 5), (1, 5)], [(1, 5)], Kind.REPEATED),
    ],
)
def test_each_kind_has_its_name(source: Side, table: Side, kind: Kind) -> None:
    found = compare_rows(digests(source), digests(table))
    assert [one.kind for one in found.differences] == [kind]
    assert found.kinds == {kind: 1}


def test_only_the_given_keys_are_compared() -> None:
    found = compare_rows(digests([(1, 5), (2, 5), (3, 5)]), [], among={'["2"]', '["9"]'})
    assert ([one.key for one in found.differences], found.kinds) == (['["2"]'], {Kind.MISSING: 1})
    assert found.source_rows == 3
