"""Columns that the settings name must be in the files: what they tell would be passed over."""

from __future__ import annotations

from typing import Any

import pytest

from lakeward.adapters.sources.dms.file_columns import File, with_schema
from lakeward.adapters.sources.dms.options import DmsOptions
from lakeward.adapters.sources.landing.places import FileName
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import SchemaConflict
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.schema import Column, Schema, Type

TABLE = Dimension(name=TableName("shop", "item"), schema=Schema(()), key=("id",))


def columns(*names: str, is_load: bool = False, **options: Any) -> tuple[str, ...]:
    item = SourceObject("a.parquet", 1, 1, 1)
    schema = Schema(tuple(Column(name, Type("string")) for name in names))
    file = File(item, FileName(is_load, 1, "parquet"), schema=schema)
    return with_schema(TABLE, [file], DmsOptions(path="landing", **options)).schema.names


def test_a_file_of_changes_says_what_its_key_was_before() -> None:
    assert columns("Op", "id", "v", "BI_id", before_image_prefix="BI_") == ("id", "v")
    assert columns("id", "v", is_load=True, before_image_prefix="BI_") == ("id", "v")
    for named in (("Op", "id", "v"), ("Op", "id", "v", "BI_v"), ("Op", "id", "v", "OLD_id")):
        with pytest.raises(SchemaConflict, match="does not say what id was before"):
            columns(*named, before_image_prefix="BI_")


def test_the_column_that_tells_operations_is_one_of_the_table() -> None:
    assert columns("Op", "id", "ind", operation_indicator="ind") == ("id", "ind")
    with pytest.raises(SchemaConflict, match="`operation_indicator` names indx"):
        columns("Op", "id", "ind", operation_indicator="indx")
