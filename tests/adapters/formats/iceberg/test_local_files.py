"""Columns in the data files of Iceberg tables, which this process reads by their ids."""

from __future__ import annotations

import pyarrow as pa
import pytest

from lakeward.adapters.formats.iceberg.writes.local_files import _names

_IDS = {"id": 1, "city": 2}


def _field(name: str, id_: int) -> pa.Field:
    return pa.field(name, pa.string(), metadata={"PARQUET:field_id": str(id_)})


def test_columns_are_known_by_their_ids_whatever_they_were_called() -> None:
    """Two columns may have taken each other's names since the file was written."""
    assert _names(_IDS, False, pa.schema([_field("city", 1), _field("id", 2)])) == {"id": "city", "city": "id"}


def test_a_column_that_is_dropped_and_made_anew_is_another_one() -> None:
    assert _names({"id": 1, "city": 3}, False, pa.schema([_field("id", 1), _field("city", 2)])) == {"id": "id"}


@pytest.mark.parametrize(
    ("is_partitioned", "schema"),
    [
        pytest.param(False, pa.schema([_field("id", 1), pa.field("city", pa.string())]), id="no id"),
        pytest.param(True, pa.schema([_field("id", 1)]), id="a column that the partition may tell"),
    ],
)
def test_a_file_that_does_not_say_all_is_left_to_spark(is_partitioned: bool, schema: pa.Schema) -> None:
    with pytest.raises(pa.ArrowInvalid):
        _names(_IDS, is_partitioned, schema)
