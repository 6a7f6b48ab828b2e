"""The header of a file of DMS that was written anew tells nothing of a row that was read before."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from sparkless import no_spark

from lakeward.adapters.sources.dms.options import DmsOptions, place
from lakeward.adapters.sources.dms.source import DmsSource
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.adapters.sources.landing.places import Places
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.ports import Entry
from lakeward.core.schema import Column, Schema, parse_type


@pytest.mark.parametrize(("written", "cells"), [(5, {"v": "1", "id": "x"}), (6, {})], ids=["before", "since"])
def test_a_row_is_taken_apart_by_the_header_that_it_had(tmp_path: Path, written: int, cells: Any) -> None:
    options = DmsOptions.model_validate({"path": str(tmp_path)})
    source = DmsSource(options, Folder(tmp_path, Places(place(options))), no_spark, small_batch=100)
    schema = Schema((Column("id", parse_type("int")), Column("v", parse_type("string"))))
    dimension = Dimension(name=TableName("shop", "item"), schema=schema, key=("id",))
    file = tmp_path / "shop" / "item" / "20261121-100000000.csv"
    file.parent.mkdir(parents=True)
    file.write_text("Op,v,id\nU,1,x\n", "utf-8")
    os.utime(file, (written, written))
    fields: dict[str, Any] = {"key": "[1]", "reason": "cast", "detail": "", "operation": "update"}
    at = {"epoch": 1, "sequence": 0, "order": 1, "batch": 2, "row": 2, "since": 5_500_000}
    assert source.cells(dimension, Entry(object=file.name, text="U,1,x", **fields, **at)).after == cells
