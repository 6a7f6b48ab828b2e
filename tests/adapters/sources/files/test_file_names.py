"""The order of plain files by their names: files of a topic's partitions come each in their own order."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lakeward.adapters.sources.files.options import FilesOptions
from lakeward.adapters.sources.files.paths.file_names import FileNames, time_of, with_sink_orders
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.adapters.sources.landing.object_selection import select_files
from lakeward.adapters.sources.landing.places import Part, Place, Places
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import AlarmRaised, SourceError
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import Limits, ObjectHistory, ObjectSelection
from lakeward.core.schema import Schema

ORDERS = TableName("public", "orders")


@pytest.mark.parametrize(
    ("name", "is_taken"),
    [
        ("orders+0+0000000000.json", True),
        ("orders+0+0000000000.keys.json", False),
        ("orders+0+0000000000.headers.json.gz", False),
        ("orders-0-0000000000.keys.json", False),
        ("shop.keys.orders/orders+0+0000000000.json", True),
        ("srv.keys.orders+0+0000000000.json", True),
        ("kong.headers.s.items-0-0000000000.json", True),
        ("srv.s.keys.0.12.json", True),
        ("srv.s.keys.json", True),
        ("2026-01-01.headers.json", True),
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


@pytest.mark.parametrize(
    ("time", "counts_from"),
    [
        ("2026", datetime(2026, 1, 1, tzinfo=UTC)),
        ("2026-11", datetime(2026, 11, 1, tzinfo=UTC)),
        ("2026-11-21", datetime(2026, 11, 21, tzinfo=UTC)),
        ("2026-1-11", datetime(2026, 1, 11, tzinfo=UTC)),
        ("1711111111", None),
        ("2026-1-2 3.4", datetime(2026, 1, 2, 3, 4, tzinfo=UTC)),
        ("2026-11-21T10:30", datetime(2026, 11, 21, 10, 30, tzinfo=UTC)),
        ("2026-13", None),
        ("21112026", None),
        ("21", None),
    ],
)
def test_a_time_counts_from_its_beginning_and_an_invalid_one_excludes_the_file(
    time: str, counts_from: datetime | None
) -> None:
    """A month without a day was no time at all, so that an older snapshot took the place of a newer one."""
    found = FileNames(re.compile(r"(?P<time>.*)\.csv")).read(f"{time}.csv", Part(""))
    told = None if found is None else time_of(found.order)
    assert told == (None if counts_from is None else int(counts_from.timestamp()) * 1_000_000)


@pytest.mark.parametrize(
    ("name", "place"),
    [
        ("shop.public.orders+0+0000000100.json", ("0", 101)),
        ("orders-2026+11+0000000021.json.gz", ("11", (11 << 44) + 22)),
        ("orders-0-0000000100.json", ("0", 101)),
        ("orders-3-31.json", ("3", (3 << 44) + 32)),
        ("orders-12-31.jsonl", ("12", (12 << 44) + 32)),
        ("orders-2026-11-20110312.json", ("11", (11 << 44) + 20110313)),
        ("orders-1-20261231.json", ("1", (1 << 44) + 20261232)),
        *(
            (f"{name}.json", None)
            for name in (
                "2026-11-21",
                "orders-2026-12-31",
                "orders_2026-1-5",
                "orders-31-12-2026",
                "orders-26-12-31",
                "orders.2026-11-21-09",
                "cdc-2026-11",
                "cdc-2026-365",
                "export-2026-12-31-100000",
                "orders-20261231-235900",
                "orders-20261231-10-15",
                "orders_20261231T10-15-30",
                "stream-1-2026-12-31-23-59-59",
                "stream-1-2026-12-31-23-59-59-0b9a4d52-77c1-4e5f-9128-201403124455",
                "part-00000-0001",
                "orders-07-15",
            )
        ),
    ],
)
def test_a_name_that_may_end_in_a_date_is_not_that_of_a_sink(name: str, place: tuple[str, int] | None) -> None:
    names = FileNames(is_messages=True)
    found = names.read(f"day=2026-12-31/{name}", Part(""))
    assert found is not None
    assert (names.partition(name), found.order) == (place or (None, 0))


def test_groups_of_a_pattern_tell_the_partition_and_the_offset_of_any_name() -> None:
    names = FileNames(re.compile(r"orders-(?P<partition>\d+)-(?P<counter>\d+)\.json"), is_messages=True)
    found = names.read("orders-2026-31.json", Part(""))
    assert found is not None
    assert (names.partition("orders-2026-31.json"), found.order) == ("2026", (2026 << 44) + 32)
    assert names.read("orders-100000-31.json", Part("")) is None, "no topic has so many"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"names": r"(?P<partition>\d+)\.json", "format": "debezium"}, "goes with `counter`"),
        ({"names": r"(?P<partition>\d+)-(?P<counter>\d+)\.json", "format": "json"}, "for messages alone"),
        ({"names": r"(?P<day>\d+)\.json"}, "there are `partition`, `time`, `counter` and `hex`"),
    ],
)
def test_a_group_without_a_meaning_is_refused(options: dict[str, str], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        FilesOptions.model_validate({"path": "landing", **options})


def listed(*names: str) -> list[SourceObject]:
    found = [(name, FileNames(is_messages=True).read(name, Part(""))) for name in names]
    return [SourceObject(name, told.order, 1, 0) for name, told in found if told is not None]


def test_files_of_days_are_counted_as_they_come() -> None:
    first = with_sink_orders(ORDERS, listed("orders-2026-12-30.json", "orders-2026-12-31.json"), ObjectHistory())
    object_history = ObjectHistory(applied={item.name: item for item in first})
    later = with_sink_orders(
        ORDERS, listed(*object_history.applied, "orders-2027-01-01.json", "orders-2027-12-31.json"), object_history
    )
    assert [(item.name, item.order) for item in later] == [
        ("orders-2026-12-30.json", 1),
        ("orders-2026-12-31.json", 2),
        ("orders-2027-01-01.json", 3),
        ("orders-2027-12-31.json", 4),
    ]


def test_a_file_of_a_day_keeps_its_order_and_new_files_follow_it() -> None:
    before = SourceObject("orders-2026-12-31.json", (12 << 44) + 32, 1, 0)
    object_history = ObjectHistory(applied={before.name: before})
    found = with_sink_orders(ORDERS, listed(before.name, "orders-2027-01-01.json"), object_history)
    assert [item.order for item in found] == [before.order, before.order + 1]


@pytest.mark.parametrize("is_archived", [False, True])
def test_a_new_file_without_an_order_among_files_of_a_sink_is_refused(is_archived: bool) -> None:
    first = with_sink_orders(ORDERS, listed("orders+0+0000000000.json"), ObjectHistory())
    object_history = ObjectHistory(applied={item.name: item for item in first})
    there = [] if is_archived else list(object_history.applied)
    with pytest.raises(SourceError, match="order of files") as raised:
        with_sink_orders(ORDERS, listed(*there, "backfill.json"), object_history)
    assert "found backfill.json, and orders+0+0000000000.json" in str(raised.value.found)
    known = {"backfill.json": SourceObject("backfill.json", 7, 1, 0)}
    found = with_sink_orders(
        ORDERS,
        listed(*there, "backfill.json", "orders+0+0000000009.json"),
        ObjectHistory(applied={**object_history.applied, **known}),
    )
    assert {item.order for item in found} == {7, 10} | ({1} if there else set()), "one that has its place keeps it"


class Sink:
    """A sink of Kafka Connect that writes files, and a table that takes them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.folder = Folder(root, Places(Place(FileNames(is_messages=True), "topics/{table}", "topics/{table}")))
        self.object_history = ObjectHistory()

    def write(self, *files: tuple[int, int]) -> None:
        for partition, offset in files:
            file = self.root / f"topics/orders/partition={partition}/orders+{partition}+{offset:010d}.json"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("{}\n", encoding="utf-8")

    def apply(self) -> ObjectSelection:
        """Apply what waits; of an `ordered` table nothing may come below the last file any more."""
        dimension = Dimension(name=ORDERS, schema=Schema(()))
        selection = select_files(self.folder, dimension, self.object_history, Limits(), with_sink_orders)
        seen = {**self.object_history.applied, **{item.name: item for item in selection.objects}}
        last = max(seen.values(), key=lambda item: item.order)
        self.object_history = replace(
            self.object_history, applied=seen, last_applied=last.name, object_watermark=last.order
        )
        return selection


def test_files_of_one_partition_follow_those_of_another(tmp_path: Path) -> None:
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
