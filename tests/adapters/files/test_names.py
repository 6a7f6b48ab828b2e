"""The order of plain files by their names: files of a topic's partitions come each in their own order."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from lakeward.adapters.files.names import FileNames, with_ordinals
from lakeward.adapters.landed.folder import Folder
from lakeward.adapters.landed.places import Part, Place, Places
from lakeward.adapters.landed.taking import choose
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import AlarmRaised
from lakeward.core.ledger import Limits, Past, Taken
from lakeward.core.schema import Schema

ORDERS = TableName("public", "orders")


@pytest.mark.parametrize(
    ("name", "is_taken"),
    [
        ("orders+0+0000000000.json", True),
        ("orders+0+0000000000.keys.json", False),
        ("orders+0+0000000000.headers.json.gz", False),
        ("shop.keys.orders/orders+0+0000000000.json", True),
    ],
)
def test_keys_and_headers_that_a_sink_writes_into_files_of_their_own_are_no_messages(
    name: str, is_taken: bool
) -> None:
    assert (FileNames(is_messages=True).read(name, Part("")) is not None) is is_taken


def test_a_group_of_a_pattern_that_holds_nothing_counts_as_0_and_one_without_a_number_takes_no_file() -> None:
    names, part = FileNames(re.compile(r"day-?(?P<counter>.*)\.csv")), Part("")
    orders = [found.order for name in ("day.csv", "day-2.csv", "day-10.csv") if (found := names.read(name, part))]
    assert orders == [1, 3, 11]
    assert names.read("day-new.csv", part) is None


class Sink:
    """A sink of Kafka Connect that writes files, and a table that takes them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = Folder(root, Places(Place(FileNames(is_messages=True), "topics/{table}", "topics/{table}")))
        self.past = Past()

    def write(self, *files: tuple[int, int]) -> None:
        for partition, offset in files:
            file = self.root / f"topics/orders/partition={partition}/orders+{partition}+{offset:010d}.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("{}\n", encoding="utf-8")

    def apply(self) -> Taken:
        """Apply what waits; of an `ordered` table nothing may come below the last file any more."""
        taken = choose(self.folder, Dimension(name=ORDERS, schema=Schema(())), self.past, Limits(), with_ordinals)
        seen = {**self.past.seen, **{item.name: item for item in taken.objects}}
        last = max(seen.values(), key=lambda item: item.order)
        self.past = replace(self.past, seen=seen, last=last.name, floor=last.order)
        return taken


def test_files_of_one_partition_come_behind_those_of_another(tmp_path: Path) -> None:
    sink = Sink(tmp_path)
    sink.write((0, 0), (1, 0))
    sink.apply()
    sink.write((0, 100), (1, 100))
    assert [item.name for item in sink.apply().objects] == [
        "partition=0/orders+0+0000000100.json",
        "partition=1/orders+1+0000000100.json",
    ]
    sink.write((0, 200))
    assert sink.apply().late == (), "it is the last of its partition"
    sink.write((2, 0))
    assert len(sink.apply().objects) == 1, "a partition that is new has no file yet that it could come before"


def test_a_file_before_one_of_its_own_partition_is_late(tmp_path: Path) -> None:
    sink = Sink(tmp_path)
    sink.write((0, 100), (1, 0))
    sink.apply()
    sink.write((0, 50))
    with pytest.raises(AlarmRaised) as raised:
        sink.apply()
    assert raised.value.about == ("partition=0/orders+0+0000000050.json",)
    assert "orders+0+0000000100.json" in str(raised.value.found), "not that of another partition"
