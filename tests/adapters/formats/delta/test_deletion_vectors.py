"""Deletion vectors that this process writes and reads, and what it deletes of which file; no Spark is needed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyroaring import BitMap64

from lakeward.adapters.formats.delta.writes.deletion_vectors import Deletion, deletions, encode_vectors, read_vector
from lakeward.adapters.formats.shared.storage.folder import DiskFolder
from lakeward.adapters.spark.merge.resolution import FILE, POS

_POSITIONS = st.sets(st.integers(0, 9) | st.integers(0, 2**33), min_size=1, max_size=20)


def _add(name: str, rows: int | None = 10, vector: Mapping[str, Any] | None = None) -> Mapping[str, Any]:
    stats = {} if rows is None else {"stats": json.dumps({"numRecords": rows})}
    return {"path": name, **stats, **({} if vector is None else {"deletionVector": vector})}


def _written(folder: Path, *marked: set[int]) -> Sequence[Mapping[str, Any]]:
    found = [Deletion(_add("a"), BitMap64(positions), len(positions)) for positions in marked]
    name, content, said = encode_vectors(found)
    (folder / name).write_bytes(content)
    return said


def _places(*places: tuple[str, int]) -> pa.Table:
    return pa.table({FILE: [file for file, _ in places], POS: [place for _, place in places]})


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(marked=st.lists(_POSITIONS, min_size=1, max_size=4))
def test_a_vector_is_read_back_as_it_was_written(tmp_path: Path, marked: list[set[int]]) -> None:
    said = _written(tmp_path, *marked)
    assert [set(read_vector(DiskFolder(tmp_path), vector)) for vector in said] == marked
    assert [vector["cardinality"] for vector in said] == [len(positions) for positions in marked]


def test_a_vector_that_is_broken_or_lies_elsewhere_is_not_read(tmp_path: Path) -> None:
    (said,) = _written(tmp_path, {1, 2})
    table = DiskFolder(tmp_path)
    for other in ({**said, "storageType": "i"}, {**said, "offset": 2}, {**said, "sizeInBytes": 3}):
        with pytest.raises(OSError, match="a deletion vector"):
            read_vector(table, other)
    (file,) = tmp_path.glob("*.bin")
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(OSError, match="broken"):
        read_vector(table, said)


def test_what_was_deleted_before_is_deleted_still_and_counts_no_more(tmp_path: Path) -> None:
    (before,) = _written(tmp_path, {1, 2})
    adds = {"url/a": _add("a", 4, before), "url/b": _add("b", 2), "url/c": _add("c")}
    places = _places(("url/a", 2), ("url/b", 1), ("url/a", 3), ("url/b", 0))
    found = deletions(DiskFolder(tmp_path), adds, places)
    assert found is not None
    said = {one.add["path"]: (set(one.positions), one.newly_deleted, one.is_whole) for one in found}
    assert said == {"a": ({1, 2, 3}, 1, False), "b": ({0, 1}, 2, True)}


@pytest.mark.parametrize(
    "adds",
    [
        pytest.param({}, id="a file that is not known"),
        pytest.param({"url/a": _add("a", None)}, id="a file without a count"),
        pytest.param({"url/a": _add("a", 7)}, id="a row behind the last"),
        pytest.param({"url/a": _add("a", 9, {"storageType": "i"})}, id="a vector in the log"),
    ],
)
def test_what_only_delta_can_delete_is_left_to_it(tmp_path: Path, adds: Mapping[str, Any]) -> None:
    assert deletions(DiskFolder(tmp_path), adds, _places(("url/a", 7))) is None
