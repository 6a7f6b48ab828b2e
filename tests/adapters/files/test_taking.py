"""Choosing plain files: without Spark, which only reading needs."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.adapters.files.options import FilesOptions
from lakeward.adapters.files.source import FilesSource
from lakeward.adapters.landed.folder import Folder
from lakeward.adapters.landed.places import Places
from lakeward.core.dimension import Dimension, Snapshots, TableName
from lakeward.core.errors import ConfigError
from lakeward.core.ledger import Past
from lakeward.core.loads import Load
from lakeward.core.schema import Column, Schema, Type

ORDERS = TableName("shop", "orders")


@pytest.fixture
def source(tmp_path: Path) -> FilesSource:
    (tmp_path / "shop" / "orders").mkdir(parents=True)
    (tmp_path / "shop" / "orders" / "1.csv").write_text("id\n1\n", encoding="utf-8")
    options = FilesOptions(path=str(tmp_path))

    def no_spark() -> None:
        raise AssertionError("Spark is not needed")

    return FilesSource(options, Folder(tmp_path, Places(options.place())), no_spark)  # type: ignore[arg-type]


def dimension(snapshots: Snapshots | None = None) -> Dimension:
    columns = Schema((Column("id", Type("int")),))
    return Dimension(name=ORDERS, key=("id",), schema=columns, snapshots=snapshots)


def test_a_full_load_that_no_file_can_be_of_is_not_waited_for(source: FilesSource) -> None:
    """A reload would wait for it for ever, and leave out the files that are there."""
    assert len(source.take(dimension(), Past()).objects) == 1
    with pytest.raises(ConfigError, match="none of them is a full load") as refused:
        source.take(dimension(), Past(load=Load(epoch=2, since=1, cut=1)))
    assert "--withdraw" in str(refused.value.todo)
    taken = source.take(dimension(Snapshots()), Past(load=Load(epoch=2, settles=10)))
    assert taken.awaited is not None, "of snapshots each file is one"
