"""Types that values of JSON cannot have, or that only look like others."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import from_arrow_schema

from lakeward.adapters.sources.files.file_columns import _has_other_keys
from lakeward.adapters.spark.session.compatibility import _described
from lakeward.core.schema import parse_type


@pytest.mark.parametrize(
    ("type_", "has_other_keys"),
    [("map<string, date>", False), ("map<date, int>", True), ("list<map<int, int>>", True), ("int", False)],
)
def test_names_in_json_are_texts(type_: str, has_other_keys: bool) -> None:
    assert _has_other_keys(parse_type(type_)) is has_other_keys


def test_a_struct_with_the_fields_of_a_geometry_is_a_struct() -> None:
    """Debezium writes geometries so. PySpark looks for a mark at the field `wkb`, and fails where it has none."""
    geometry = pa.struct([("wkb", pa.binary()), ("srid", pa.int32())])
    fields = [("one", geometry), ("many", pa.list_(geometry)), ("named", pa.map_(pa.string(), geometry))]
    plain = pa.struct([("bytes", pa.binary()), ("srid", pa.int32())])
    others = [("one", plain), ("many", pa.list_(plain)), ("named", pa.map_(pa.string(), plain))]
    found, expected = (
        from_arrow_schema(pa.schema(map(_described, pa.schema(own))), prefer_timestamp_ntz=True).simpleString()
        for own in (fields, others)
    )
    assert found.replace("wkb", "bytes") == expected
