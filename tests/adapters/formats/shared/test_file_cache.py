"""A cache of what was read from files holds so many bytes at most, and the newest used of them."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from lakeward.adapters.formats.shared.storage.file_cache import FileCache


def _cache_of(*names: str) -> FileCache[str]:
    cache = FileCache[str](3)
    for name in names:
        cache.put(name, name.upper(), 1)
    return cache


def test_the_least_recently_used_values_go_first() -> None:
    cache = _cache_of("a", "b", "c")
    assert cache.get("a") == "A"
    cache.put("d", "D", 1)
    assert [cache.get(name) for name in "abcd"] == ["A", None, "C", "D"]
    assert cache.size == 3


def test_a_value_that_is_put_again_counts_once() -> None:
    cache = _cache_of("a", "a", "b")
    assert (cache.size, cache.get("a"), cache.get("b")) == (2, "A", "B")


@pytest.mark.parametrize(("size", "remaining"), [(2, ["c", "x"]), (3, ["x"]), (4, [])])
def test_a_large_value_takes_the_place_of_others(size: int, remaining: Sequence[str]) -> None:
    cache = _cache_of("a", "b", "c")
    cache.put("x", "X", size)
    assert [name for name in "abcx" if cache.get(name) is not None] == remaining
    assert cache.size <= cache.most_bytes
