"""Columns may have any name that is not reserved by lakeward: they never collide with columns of its frames.

The keys of the tables have columns with names that lakeward used or might use for added columns.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from project import Project
from pyspark.sql import SparkSession
from resolution_switches import use_spark_in_commands

from lakeward.adapters.spark.merge.fold import batch_fold
from lakeward.adapters.spark.sql.names import PREFIX

pytestmark = pytest.mark.spark

ODD = ("odd.name", "tick`s")
COLLAPSED = (
    *("place", "barrier", "first", "events", "newer", "same", "inserts", "deletes", "ties"),
    *("content", "one_content", "other_content", *ODD),
)
FOLDED = (
    *("place", "barrier", "newest", "base", "gone_place", "row_place", "newest_place"),
    *("is_loaded", "is_known", "linked", *ODD),
)
OTHERS = ("note", "amount")
SHOWN = ("valid_from", "valid_to")
IN_PART = 'no_sup_value = "~"\nbefore_image_prefix = "BI_"'


@dataclass
class Shop:
    """A project with one table. A row has the same value in all columns of its key."""

    project: Project
    names: tuple[str, ...]
    more: str = ""
    source: str = ""

    def __post_init__(self) -> None:
        types = {**dict.fromkeys(self.key, "int"), "note": "string", "amount": "decimal(8,2)"}
        columns = ", ".join(f"{json.dumps(name)} = {json.dumps(type_)}" for name, type_ in types.items())
        table = f"key = {json.dumps(self.key)}\ncolumns = {{ {columns} }}\nlateness = '30d'\n{self.more}"
        self.project.configure(f'[tables."shop.item"]\n{table}', source=f'timestamp_column = "at"\n{self.source}')

    @property
    def key(self) -> tuple[str, ...]:
        return ("buyer", *self.names)

    def put(self, clock: str, *rows: tuple[str, ...], others: tuple[str, ...] = OTHERS) -> None:
        """Deliver changes: operation, key, other columns, and the old key of a key change."""
        before = [f"BI_{name}" for name in self.key] if self.source else []
        lines = [("Op", "at", *self.key, *others, *before)]
        for operation, key, *rest in rows:
            cells, old = rest[: len(others)], rest[len(others) :] or ["" if operation == "I" else key]
            lines.append((operation, f"2026-11-21 {clock}:00", *[key] * len(self.key), *cells, *old * len(before)))
        self._deliver(f"20261121-{clock.replace(':', '')}00000.csv", lines)

    def load(self, *keys: str) -> None:
        rows = [("2026-11-20 10:00:00", *[key] * len(self.key), f"n{key}", "1.00") for key in keys]
        self._deliver("LOAD00000001.csv", [("at", *self.key, *OTHERS), *rows])

    def _deliver(self, name: str, lines: list[tuple[str, ...]]) -> None:
        self.project.put(name, "".join(f"{','.join(line)}\n" for line in lines))

    def run(self, code: int = 0) -> dict[str, int]:
        counts: dict[str, int] = self.project.run(code)["shop.item"]["counts"]
        return counts

    def shown(self, *more: str) -> list[tuple[Any, ...]]:
        """Return rows by key: key, other columns, and times."""
        found = []
        for *cells, note, amount in self.project.read("item", "shop", (*more, *self.key, *OTHERS)):
            times, key = cells[: len(more)], cells[len(more) :]
            assert len({*key}) == 1, key
            found.append((key[0], note, str(amount), *[time and f"{time:%d %H:%M}" for time in times]))
        return sorted(found, key=lambda row: (row[0], row[3:4]))

    def repair_row(self) -> None:
        """Repair the bad amount, and replay the row."""
        assert self.project.call("quarantine", "fix", "shop.item", "--reason", "cast").code == 0
        file = self.project.folder / "shop.item.fix.toml"
        file.write_text(file.read_text("utf-8").replace('= "dear"', '= "1.10"'), "utf-8")
        selection = self.project.call("quarantine", "fix", "shop.item", "--from", file.name)
        assert selection.code == 0, selection.err
        replayed = self.project.call("quarantine", "replay", "shop.item", "--json")
        assert replayed.code == 0, replayed.err


@pytest.fixture
def unrouted_rows(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> Callable[[], set[str]]:
    """Return a function that returns the columns of all frames that are neither of the table nor reserved."""
    frame, found = type(spark.range(0)), set[str]()
    made = frame.__init__

    def init(self: Any, frame_of_java: Any, *rest: Any) -> None:
        made(self, frame_of_java, *rest)
        has = {field["name"] for field in json.loads(frame_of_java.schema().json())["fields"]}
        if has & {"buyer", "note"}:
            own = {"buyer", *COLLAPSED, *FOLDED, *OTHERS, *SHOWN, "is_current"}
            found.update(name for name in has - own if not name.startswith(PREFIX))

    monkeypatch.setattr(frame, "__init__", init)
    return lambda: found


def test_columns_of_a_mirror_of_whole_rows_may_have_any_name(
    project: Project, unrouted_rows: Callable[[], set[str]]
) -> None:
    shop = Shop(project, COLLAPSED)
    shop.load("1", "2", "3")
    shop.run()
    shop.put("10:00", ("U", "1", "one", "dear"), ("U", "1", "more", "1.20"), ("D", "2", "n2", "1.00"))
    shop.put("10:10", ("I", "2", "two", "2.00"), ("U", "4", "four", "4.00"), ("D", "3", "n3", "1.00"))
    assert shop.run(3)["waiting"] == 1
    assert shop.shown() == [(1, "n1", "1.00"), (2, "two", "2.00"), (4, "four", "4.00")]
    shop.repair_row()
    shop.put("09:00", ("U", "3", "late", "3.00"), ("U", "2", "late", "2.00"))
    assert shop.run()["stale"] == 2
    shop.put("10:20", ("U", "4", "five"), others=OTHERS[:1])
    shop.run()
    assert shop.shown() == [(1, "more", "1.20"), (2, "two", "2.00"), (4, "five", "4.00")]
    assert unrouted_rows() == set()


@pytest.mark.long
def test_columns_of_a_mirror_of_partial_rows_may_have_any_name(
    project: Project, unrouted_rows: Callable[[], set[str]]
) -> None:
    shop = change_and_repair(Shop(project, FOLDED, source=IN_PART))
    assert shop.shown() == [(1, "more", "1.10"), (3, "three", "3.10"), (4, "four", "4.00"), (5, "n2", "1.00")]
    shop.put("09:30", ("U", "3", "late", "~"), ("U", "4", "~", "9.00"))
    shop.put("10:30", ("U", "5", "five", "~"))
    assert shop.run()["stale"] == 2
    assert shop.shown()[-1] == (5, "five", "1.00")
    assert unrouted_rows() == set()


@pytest.mark.long
def test_columns_of_a_history_may_have_any_name(
    project: Project, unrouted_rows: Callable[[], set[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = Shop(project, FOLDED, 'mode = "history"', IN_PART)
    with monkeypatch.context() as patched:
        use_spark_in_commands(patched)
        patched.setattr(batch_fold, "SMALL", 0)  # so that keys of which nothing is known are told apart
        change_and_repair(shop)
    shop.put("09:30", ("U", "3", "late", "~"))
    shop.run()
    assert shop.shown(*SHOWN) == [
        (1, "n1", "1.00", "20 10:00", "21 10:00"),
        (1, "more", "1.10", "21 10:00", None),
        (2, "n2", "1.00", "20 10:00", "21 10:10"),
        (3, "n3", "1.00", "20 10:00", "21 09:30"),
        (3, "late", "1.00", "21 09:30", "21 10:10"),
        (3, "three", "3.10", "21 10:10", None),
        (4, "four", "4.00", "21 10:10", None),
        (5, "n2", "1.00", "21 10:10", None),
    ]
    assert project.call("reload", "shop.item").code == 0
    shop.load("3", "6")
    assert project.call("load-complete", "shop.item").code == 0
    shop.run()
    assert [row[0] for row in shop.shown(*SHOWN) if row[-1] is None] == [3, 6]
    assert unrouted_rows() == set()


def change_and_repair(shop: Shop) -> Shop:
    """Load a table, hold a row, change a key, and repair the row."""
    shop.load("1", "2", "3")
    shop.run()
    shop.put("10:00", ("U", "1", "one", "dear"), ("U", "1", "more", "~"))
    shop.put("10:10", ("U", "5", "~", "~", "2"), ("I", "4", "four", "4.00"), ("U", "3", "three", "3.10"))
    assert shop.run(3)["waiting"] == 1
    shop.repair_row()
    return shop


def test_columns_of_late_snapshots_may_have_any_name(project: Project) -> None:
    listed = ", ".join(f'{json.dumps(name)} = "int"' for name in ODD)
    table = f'columns = {{ {listed}, note = "string" }}\nkey = {json.dumps(ODD)}\nmode = "history"\n'
    table += 'full_loads = "snapshot"\nleast_share = 0\n'
    table += "source = { snapshots = \"file\", names = '(?P<time>.*)\\.csv' }\n"
    project.configure(f'[tables."shop.item"]\n{table}')
    settings = project.folder / "lakeward.toml"
    settings.write_text(settings.read_text("utf-8").replace('"dms"', '"files"'), "utf-8")
    for day, note in ((5, "new"), (3, "old"), (4, "old")):
        project.put(f"2026-10-{day:02}.csv", f"{','.join(ODD)},note\n1,1,{note}\n")
        assert project.call("load-complete", "shop.item").code == 0
        project.run()
    found = project.read("item", "shop", (*ODD, "note", *SHOWN))
    assert sorted((*row[:3], row[3].day, row[4] and row[4].day) for row in found) == [
        (1, 1, "new", 5, None),
        (1, 1, "old", 3, 5),
    ]
