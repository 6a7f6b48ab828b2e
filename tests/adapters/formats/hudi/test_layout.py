"""How a Hudi table is laid out, as each commit says it."""

from __future__ import annotations

import json

import pytest
from hudi_files import commit_metadata

from lakeward.adapters.formats.hudi.metadata.timeline import LAYOUT, Instant
from lakeward.adapters.formats.hudi.operations.layout import (
    ENCODED,
    GENERATOR,
    INDEX,
    RECORD_KEY,
    Layout,
    layout_of,
)
from lakeward.adapters.formats.hudi.options import TableOptions
from lakeward.adapters.formats.shared.rows.text_sets import TextSet
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import TableError
from lakeward.core.schema import Column, Schema, Type

SCHEMA = Schema((Column("id", Type("string")), Column("no", Type("string")), Column("day", Type("string"))))
DIMENSION = Dimension(name=TableName("shop", "item"), schema=SCHEMA, key=("id",))


def external(key: str, generator: str, index: str = "SIMPLE", encoded: str = "true") -> Layout:
    options = {RECORD_KEY: key, GENERATOR: f"org.apache.hudi.keygen.{generator}", INDEX: index, ENCODED: encoded}
    return Layout(["day"], "copy-on-write", 4, options)


def instant(layout: str) -> Instant:
    return Instant("2", "1", commit_metadata(extraMetadata={LAYOUT: layout}))


OWN = Layout.of(TableOptions(partition_by=["day"]))


@pytest.mark.parametrize("made", [OWN, external("id", "SimpleKeyGenerator")], ids=["own", "external"])
def test_a_layout_is_read_back_from_a_commit(made: Layout) -> None:
    assert layout_of([instant(made.to_json())], "shop.item") == made
    assert layout_of([], "shop.item") is None


def test_a_form_of_record_keys_that_is_not_known_is_refused() -> None:
    later = json.dumps({**json.loads(Layout.of(TableOptions()).to_json()), "keys": 3})
    with pytest.raises(TableError, match="another lakeward made the table"):
        layout_of([instant(later)], "shop.item")


def test_a_row_lies_by_its_record_key_and_its_partition_each_column_once() -> None:
    assert Layout.of(TableOptions(partition_by=["day"])).place(DIMENSION) == ["_lakeward_key", "day"]
    assert external("day,id", "ComplexKeyGenerator").place(DIMENSION) == ["day", "id"]


def test_only_tables_of_other_jobs_have_ambiguous_texts() -> None:
    assert Layout.of(TableOptions()).ambiguous_texts(DIMENSION) == {}
    assert external("id", "SimpleKeyGenerator").ambiguous_texts(DIMENSION) == {"id": TextSet(words=("",))}


def test_a_text_with_a_comma_and_a_colon_may_be_two_in_a_key_of_several_columns() -> None:
    of_several = external("id,no", "ComplexKeyGenerator").ambiguous_texts(DIMENSION)
    assert set(of_several) == {"id", "no"}
    assert of_several["id"].has("1,no:2")
    of_buckets = external("id", "NonpartitionedKeyGenerator", "BUCKET").ambiguous_texts(DIMENSION)["id"]
    assert [of_buckets.has(text) for text in ("a:1,b", "a,b", "", "__null__")] == [True, False, True, True]


def test_a_path_that_is_not_encoded_must_not_have_an_empty_part() -> None:
    found = external("id", "SimpleKeyGenerator", encoded="false").ambiguous_texts(DIMENSION)["day"]
    texts = ["a//b", "a/", "/a", "", "..", "a/./b", ".hoodie_x/b", "a/b", "a.b/..c", "x.hoodie"]
    assert [text for text in texts if not found.has(text)] == ["a/b", "a.b/..c", "x.hoodie"]
