"""Keys that are looked for in files: numbers close to each other by flags, all others by hashing them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.adapters.formats.shared.storage.wanted_keys import WantedKeys


@pytest.mark.parametrize("bits", [8, 16, 32, 64])
@given(data=st.data())
def test_indices_are_those_of_the_rows_with_wanted_numbers(bits: int, data: st.DataObject) -> None:
    type_ = {8: pa.int8(), 16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[bits]
    lowest, highest = -(2 ** (bits - 1)), 2 ** (bits - 1) - 1
    start = data.draw(st.sampled_from([lowest, -50, 0, highest - 100]), "start")
    close = st.integers(start, min(start + 200, highest))
    keys = data.draw(st.lists(close, max_size=40, unique=True))
    stored = close | st.sampled_from([lowest, -1, 0, highest]) | st.integers(lowest, highest)
    rows: Sequence[int | None] = data.draw(st.lists(stored, max_size=40) | st.lists(stored | st.none()))
    wanted = WantedKeys(pa.table({"id": pa.array(keys, type_)}))
    found = wanted.matching_indices(pa.table({"id": pa.array(rows, type_)}))
    assert found.tolist() == [place for place, key in enumerate(rows) if key in keys]


def test_differences_of_small_numbers_do_not_overflow() -> None:
    keys = pa.table({"id": pa.array(range(-128, 128, 20), pa.int8())})
    rows = pa.table({"id": pa.array(range(-128, 128), pa.int8())})
    assert WantedKeys(keys).matching_indices(rows).tolist() == [*range(0, 256, 20)]


@given(
    keys=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3) | st.none()), unique=True, min_size=1),
    rows=st.lists(st.tuples(st.integers(0, 4) | st.none(), st.integers(0, 4)), max_size=12),
)
def test_a_key_of_two_columns_matches_whole(
    keys: list[tuple[int, int | None]], rows: list[tuple[int | None, int]]
) -> None:
    schema = pa.schema([("tenant", pa.int64()), ("id", pa.int64())])

    def table(pairs: Sequence[tuple[int | None, int | None]]) -> pa.Table:
        return pa.Table.from_pylist([dict(zip(schema.names, pair, strict=True)) for pair in pairs], schema)

    found = WantedKeys(table(keys)).matching_indices(table(rows))
    assert found.tolist() == [place for place, row in enumerate(rows) if row in keys]


@pytest.mark.parametrize(
    ("keys", "has_flags"),
    [
        pytest.param(pa.array([1, 2, 60]), True, id="close"),
        pytest.param(pa.array([1, 2, 96 + 1]), False, id="far from each other"),
        pytest.param(pa.array([1, None]), False, id="a NULL"),
        pytest.param(pa.array(["1"]), False, id="texts"),
        pytest.param(pa.array([], pa.int64()), False, id="none"),
    ],
)
def test_only_close_numbers_have_flags(keys: pa.Array, has_flags: bool) -> None:
    """Flags of keys that are far from each other would take much memory."""
    assert ("id" in WantedKeys(pa.table({"id": keys}))._flags) is has_flags
