"""What is said of a Parquet file by its footer alone, before Spark reads it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakeward.adapters.sources.rows.parquet_footers import PhysicalForm, read_footer
from lakeward.core.errors import SourceError

PLAIN, SPLIT = {"use_dictionary": False}, "BYTE_STREAM_SPLIT"
ROWS = pa.table({"id": [1, 2], "of": [{"price": 1.5}, {"price": 2.5}]})


@pytest.mark.parametrize(
    ("written", "column", "found"),
    [
        ({"compression": {"of.price": "brotli"}}, "of.price", "compressed with BROTLI"),
        ({"compression": "brotli"}, "id", "compressed with BROTLI"),
        ({**PLAIN, "column_encoding": {"of.price": SPLIT}}, "of.price", f"encoded as {SPLIT}"),
        ({**PLAIN, "column_encoding": {"id": SPLIT}, "row_group_size": 1}, "id", f"encoded as {SPLIT}"),
    ],
)
def test_an_unreadable_codec_is_named(tmp_path: Path, written: dict[str, object], column: str, found: str) -> None:
    pq.write_table(ROWS, tmp_path / "a.parquet", **written)
    with pytest.raises(SourceError) as caught:
        read_footer(tmp_path / "a.parquet", "shop.item", "a.parquet")
    assert caught.value.what == f"shop.item: Spark does not read the column {column} of a.parquet"
    assert caught.value.found == f"its values are {found}; the file is whole"
    assert "Let the file be written with " in caught.value.todo


@pytest.mark.parametrize("codec", ["none", "snappy", "gzip", "zstd", "lz4"])
def test_codecs_and_encodings_that_spark_reads_are_accepted(tmp_path: Path, codec: str) -> None:
    for encoding in ("DELTA_BINARY_PACKED", "PLAIN"):
        more = {"use_dictionary": False, "column_encoding": {"id": encoding}}
        pq.write_table(ROWS, tmp_path / "a.parquet", compression=codec, **more)
        assert read_footer(tmp_path / "a.parquet", "shop.item").schema.names == ("id", "of")


def test_columns_get_the_wanted_names_unless_two_differ_by_case_only(tmp_path: Path) -> None:
    pq.write_table(pa.table({"ID": [1], "Name": pa.nulls(1), "v": [1], "V": [2], "w": [1]}), tmp_path / "t.parquet")
    found = read_footer(tmp_path / "t.parquet", "shop.item").with_names(["id", "name", "V", "v", "W", "w"])
    assert found.schema.names == ("id", "v", "V", "w")
    assert found.forms == (("name", PhysicalForm.NOTHING),)
    assert dict(found.written) == {"id": "ID", "name": "Name"}
