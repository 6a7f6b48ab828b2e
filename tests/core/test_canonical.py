"""Values that are equal: of maps as Arrow has them, the entries, in any order."""

from __future__ import annotations

import math

import pytest

from lakeward.core.events import UNSET, canonical, same_cells


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([("a", 1), ("b", 2)], [("b", 2), ("a", 1)]),
        ([("a", math.nan)], [("a", float("nan"))]),
        ([("a", [1.0, -0.0])], [("a", [1.0, 0.0])]),
        ([("a", [("x", 1), ("y", 2)])], [("a", [("y", 2), ("x", 1)])]),
        ({"m": [("a", [1])], "n": None}, {"n": None, "m": [("a", [1])]}),
    ],
)
def test_maps_are_equal_whatever_the_order_of_their_entries(one: object, other: object) -> None:
    assert canonical(one) == canonical(other)
    assert hash(canonical(one)) == hash(canonical(other))
    assert same_cells({"m": one}, {"m": other})


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ([("a", 1)], [("a", 2)]),
        ([("a", 1)], []),
        ([1, 2], [2, 1]),
        ([{"a": 1}, {"a": 2}], [{"a": 2}, {"a": 1}]),
        ([("a", [1, 2])], [("a", [2, 1])]),
    ],
)
def test_other_values_are_not_equal(one: object, other: object) -> None:
    assert canonical(one) != canonical(other)


def test_a_cell_that_an_image_lacks_was_not_sent() -> None:
    """What is remembered of a change names each column, one that is read those of its file."""
    assert same_cells({"id": 1}, {"id": 1, "a": UNSET})
    assert not same_cells({"id": 1}, {"id": 1, "a": None})
