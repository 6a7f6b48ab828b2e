"""Histories of tables whose files are snapshots, also with late older ones."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from history_model import of_one_key
from outside import case
from project import Project, any_kind
from resolution_switches import use_spark_in_commands

from lakeward.adapters.spark.history import snapshot_splice
from lakeward.adapters.spark.history.version_rows import VersionRows
from lakeward.adapters.spark.sql.fragments import struct
from lakeward.adapters.spark.sql.names import POSITION
from lakeward.core.history.older_snapshots import SnapshotSpan
from lakeward.plugins.testing.simulated_database import Features, Feed, State, feed

pytestmark = pytest.mark.spark

SETTINGS = """
[pipeline]
name = "shop"

[source]
kind = "files"
path = "landing"
{source}

[target]
kind = "{kind}"
warehouse = "lake"

[tables."shop.item"]
mode = "history"
full_loads = "snapshot"
least_share = 0
source = {{ snapshots = "{unit}", names = '{names}' }}
{table}
"""
NAMES = {"file": r"(?P<time>.*)\.csv", "folder": "(?P<time>[^/]*)/.*"}


def configure(project: Project, table: str, source: str = "", unit: str = "file") -> None:
    text = SETTINGS.format(kind=project.kind, table=table, source=source, unit=unit, names=NAMES[unit])
    (project.folder / "lakeward.toml").write_text(text, "utf-8")


def take(project: Project, name: str, content: str) -> dict[str, Any]:
    """Deliver a snapshot, complete it, and return the batch of the run."""
    project.put(name, content)
    assert project.call("load-complete", "shop.item").code == 0
    (run,) = project.run().values()
    (batch,) = run["batches"]
    assert isinstance(batch, dict)
    return batch


def shown(project: Project, *columns: str) -> list[tuple[Any, ...]]:
    found = project.rows("item", columns=(*columns, "valid_from", "valid_to"))
    return [tuple(at(value) if isinstance(value, datetime) else value for value in row) for row in found]


def at(value: datetime) -> str:
    return (value if value.tzinfo is None else value.astimezone(UTC)).strftime("%Y-%m-%d %H:%M:%S")


def lines(path: Path) -> list[tuple[str | None, ...]]:
    with path.open(encoding="utf-8", newline="") as file:
        return sorted(tuple(None if v == r"\N" else v for v in line) for line in list(csv.reader(file))[1:])


@any_kind
def test_a_table_that_is_snapshotted_twice_a_day(project: Project) -> None:
    configure(project, 'key = ["Key"]\ncolumns = { Key = "string", Value = "string" }')
    folder = case("scd2-from-periodic-snapshot")
    for file in sorted((folder / "input").iterdir()):
        take(project, file.name, file.read_text("utf-8"))
    assert shown(project, "Key", "Value") == lines(folder / "expected" / "scd2.csv")


@any_kind
def test_an_older_snapshot_of_houses_comes_late(project: Project) -> None:
    """The case ends a version with the last second before the day of the next snapshot."""
    columns = 'prop_id = "int", house_type = "string", has_furniture = "string", surface = "int", price = "int"'
    table = f'key = ["prop_id"]\ntrack = ["price"]\ncolumns = {{ {columns} }}'
    configure(project, f'{table}\nhistory = {{ type = "date", closed = true }}', 'delimiter = ";"')
    folder = case("scd2-snapshots-backfill-housing")
    runs = [("today.csv", "2023-02-18", "after_today_only.csv")]
    runs += [("02_01_2023.csv", "2023-01-02", "after_backfill_2023-01-02.csv")]
    for name, day, result in runs:
        text = (folder / "input" / name).read_text("utf-8").replace("\r", "")
        take(project, f"{day}.csv", text.replace(";\n", "\n"))
        expected = [(int(a or 0), (b or "")[:10], c and c[:10]) for a, b, c in lines(folder / "expected" / result)]
        found = project.rows("item", columns=("prop_id", "valid_from", "valid_to"))
        assert [(row[0], str(row[1]), row[2] and str(row[2])) for row in found] == sorted(expected)


@dataclass
class Feeds:
    """Many feeds in one table: a snapshot has the mirrors of all of them at one point.

    It is a file, or a folder of several files with different keys.
    """

    project: Project
    random: Random
    points: int
    shape: str
    parts: int = 1
    feeds: Sequence[Feed] = ()

    def __post_init__(self) -> None:
        self.feeds = [feed(self.random, Features(transactions=29)) for _ in range(60)]
        columns = 'columns = { feed = "int", id = "int", a = "int", b = "int" }'
        table = f'key = ["feed", "id"]\n{columns}\n[tables."shop.item".history]\n{self.shape}'
        configure(self.project, table, unit="folder" if self.parts > 1 else "file")
        self.days = sorted(self.random.sample(range(5, 30), self.points))

    def state(self, one: Feed, day: int) -> State:
        """Return the rows of a feed on one of thirty days, over which its changes are spread."""
        return one.states[day * len(one.states) // 30]

    def deliver(self, day: int, at: int | None = None) -> None:
        """Deliver the snapshot of a day, or with `at` one that has the rows of another point."""
        files = [["feed,id,a,b\n"] for _ in range(self.parts)]
        for number, one in enumerate(self.feeds):
            for key, row in self.state(one, day if at is None else at).items():
                files[(number + key) % self.parts].append(f"{number},{key},{row['a']},{row['b']}\n")
        names = [f"/{part}.csv" for part in range(self.parts)] if self.parts > 1 else [".csv"]
        *before, last = [(f"2026-10-{day + 1:02}{n}", "".join(f)) for n, f in zip(names, files, strict=True)]
        for name, content in before:
            self.project.put(name, content)
        take(self.project, *last)

    def check(self) -> None:
        """Compare the table with the history of each feed at these points."""
        expected = []
        for number, one in enumerate(self.feeds):
            states = {day: self.state(one, day) for day in self.days}
            for key in {key for state in states.values() for key in state}:
                moments = [(day + 1, state.get(key)) for day, state in states.items()]
                versions = of_one_key(moments, "ab")
                expected += [(number, key, v.image["a"], v.image["b"], v.valid_from, v.valid_to) for v in versions]
        closed, known = "closed" in self.shape, ("known_to",) if "known" in self.shape else ()
        columns = ("feed", "id", "a", "b", "valid_from", "valid_to", *known)
        believed = [row[:6] for row in self.project.read("item", "shop", columns) if row[6:] in ((), (None,))]
        found = [(*row[:4], row[4].day, row[5] and row[5].day + closed) for row in believed]
        assert sorted(found, key=str) == sorted(expected, key=str)
        assert never_fall(self.project, "feed", "id", believed=known)


def never_fall(project: Project, *key: str, believed: Sequence[str] = ()) -> bool:
    """Return True if the positions of the current versions of each key never fall."""
    columns = (*key, "valid_from", *POSITION, *believed)
    size = len(key)
    rows = [row for row in project.read("item", "shop", columns) if row[size + 5 :] in ((), (None,))]
    places = [(row[:size], row[size + 1 : size + 5]) for row in sorted(rows, key=lambda row: row[: size + 1])]
    return all(one[0] != then[0] or one[1] <= then[1] for one, then in pairwise(places))


BY_DAY = "type = 'date'\nclosed = true\nsurrogate = 'number'"
KNOWN = "kinds = { b = 6 }\nsurrogate = 'hash'\nknown = true"


@any_kind
@pytest.mark.parametrize(
    ("shape", "parts"),
    [
        pytest.param(BY_DAY, 1, id="days"),
        pytest.param(KNOWN, 1, id="known", marks=pytest.mark.long),
        pytest.param(BY_DAY, 2, id="folders", marks=pytest.mark.long),
        pytest.param(KNOWN, 3, id="folders-known", marks=pytest.mark.long),
    ],
)
def test_snapshots_in_any_order_give_the_history_of_their_feeds(project: Project, shape: str, parts: int) -> None:
    """One is wrong at first, and then written again. The newest comes after those that were put between others."""
    feeds = Feeds(project, Random(shape), 4 if parts == 1 else 5, shape, parts)
    *older, newest = feeds.days
    feeds.deliver(older[2], at=older[0])
    for day in (*feeds.random.sample(older, len(older)), newest):
        feeds.deliver(day)
    feeds.check()
    if shape == BY_DAY:
        numbers = [number for (number,) in project.rows("item", columns=("version_key",))]
        assert len({*numbers}) == len(numbers)
        assert min(numbers) > 0
    else:
        batches = project.read("item", "shop", ("known_from", "known_to"))
        assert all(since >= 1 and (until is None or since < until) for since, until in batches)


@any_kind
def test_the_only_snapshot_written_again_begins_with_the_first_load(project: Project) -> None:
    columns = 'columns = { id = "int", n = "int" }'
    configure(project, f'key = ["id"]\n{columns}\nhistory = {{ first_load = 1900-01-01 }}')
    take(project, "2026-10-05.csv", "id,n\n1,1\n2,1\n")
    take(project, "2026-10-05.csv", "id,n\n1,2\n3,1\n")
    began = "1900-01-01 00:00:00"
    assert shown(project, "id", "n") == [(1, 2, began, None), (3, 1, began, None)]
    take(project, "2026-10-06.csv", "id,n\n1,1\n3,1\n")
    changed = "2026-10-06 00:00:00"
    assert shown(project, "id", "n") == [(1, 1, changed, None), (1, 2, began, changed), (3, 1, began, None)]


@any_kind
def test_a_late_file_of_a_folder_is_read_with_all_others(project: Project) -> None:
    configure(project, 'key = ["id"]\ncolumns = { id = "int", n = "int" }', unit="folder")
    project.put("2026-10-05/a.csv", "id,n\n1,1\n2,1\n")
    take(project, "2026-10-05/b.csv", "id,n\n3,1\n")
    take(project, "2026-10-05/c.csv", "id,n\n4,1\n")
    began = "2026-10-05 00:00:00"
    assert shown(project, "id", "n") == [(key, 1, began, None) for key in (1, 2, 3, 4)]
    assert take(project, "2026-10-05/b.csv", "id,n\n3,2\n")["counts"]["read"] == 4
    assert shown(project, "id", "n") == [(key, 2 if key == 3 else 1, began, None) for key in (1, 2, 3, 4)]


def deliver_folders(project: Project, *days: tuple[int, int]) -> None:
    """Deliver a folder for each of these days: one file has a row with this value, the last another row."""
    for day, n in days:
        project.put(f"2026-10-{day:02}/a.csv", f"id,n\n1,{n}\n")
        take(project, f"2026-10-{day:02}/b.csv", "id,n\n2,1\n")


def values(project: Project) -> list[int]:
    return [n for key, n, *_ in shown(project, "id", "n") if key == 1]


@any_kind
def test_a_folder_between_others_stays_there_when_a_newer_one_comes(project: Project) -> None:
    configure(project, 'key = ["id"]\ncolumns = { id = "int", n = "int" }', unit="folder")
    deliver_folders(project, (5, 1), (9, 3), (7, 2), (11, 4))
    assert [row[1:] for row in shown(project, "id", "n") if row[0] == 1] == [
        (1, "2026-10-05 00:00:00", "2026-10-07 00:00:00"),
        (2, "2026-10-07 00:00:00", "2026-10-09 00:00:00"),
        (3, "2026-10-09 00:00:00", "2026-10-11 00:00:00"),
        (4, "2026-10-11 00:00:00", None),
    ]
    assert never_fall(project, "id")


def begins_one_late(shown: VersionRows, span: SnapshotSpan, old: str) -> str:
    return VERSIONS(shown, replace(span, begins=span.begins + 1), old)


def ends_one_late(shown: VersionRows, span: SnapshotSpan, old: str) -> str:
    return VERSIONS(shown, replace(span, ends=span.ends + 1), old)


def leaves_what_vanished(shown: VersionRows, span: SnapshotSpan, old: str) -> str:
    return f"CASE WHEN {snapshot_splice._SNAPSHOT} IS NULL THEN {old} ELSE {VERSIONS(shown, span, old)} END"


def places_a_row_by_its_own_file(shown: VersionRows, span: SnapshotSpan, old: str) -> str:
    """Give versions positions as an earlier release did, so that they fall when folders come between others."""
    own = {name: f"v.place.{name}" for name in "esr"} | {"o": "v.place.o - 1"}
    made = snapshot_splice._with_fields(shown, "v", place=struct({name: own[name] for name in "esor"}))
    is_made = f"v.begins = {span.begins}L AND v.ends = {span.ends}L"
    return f"transform({VERSIONS(shown, span, old)}, v -> CASE WHEN {is_made} THEN {made} ELSE v END)"


VERSIONS = snapshot_splice._versions


@pytest.mark.long
@pytest.mark.parametrize(
    "broken", [begins_one_late, ends_one_late, leaves_what_vanished, places_a_row_by_its_own_file]
)
def test_the_law_of_snapshots_fails_on_wrong_splices(
    project: Project, monkeypatch: pytest.MonkeyPatch, broken: Any
) -> None:
    use_spark_in_commands(monkeypatch)
    monkeypatch.setattr(snapshot_splice, "_versions", broken)
    feeds = Feeds(project, Random(1), 3, BY_DAY, parts=2)
    for place in (0, 2, 1):
        feeds.deliver(feeds.days[place])
    with pytest.raises(AssertionError):
        feeds.check()


@pytest.mark.long
@any_kind
def test_falling_positions_lose_no_version_to_the_next_change(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such tables exist since earlier releases."""
    configure(project, 'key = ["id"]\ncolumns = { id = "int", n = "int" }', unit="folder")
    with monkeypatch.context() as before:
        use_spark_in_commands(before)
        before.setattr(snapshot_splice, "_versions", places_a_row_by_its_own_file)
        deliver_folders(project, (5, 1), (9, 3), (7, 2))
    assert not never_fall(project, "id")
    deliver_folders(project, (11, 4), (12, 5))
    assert values(project) == [1, 2, 3, 4, 5]


@pytest.mark.long
def test_a_row_missing_from_a_snapshot_ends_at_the_run_if_valid_times_are_equal(project: Project) -> None:
    columns = 'key = ["id"]\ncolumns = { id = "int", at = "timestamp" }'
    configure(project, columns, 'order_by = "at"')
    take(project, "2026-10-05.csv", "id,at\n1,2026-10-01 00:00:00\n2,2026-10-01 00:00:00\n")
    take(project, "2026-10-06.csv", "id,at\n1,2026-10-01 00:00:00\n")
    began = "2026-10-01 00:00:00"
    assert shown(project, "id") == [(1, began, None), (2, began, "2026-12-01 00:00:00")]


@any_kind
def test_the_settings_can_leave_out_older_snapshots(project: Project) -> None:
    configure(project, 'key = ["id"]\ncolumns = { id = "int" }\nolder_snapshots = "skip"')
    take(project, "2026-10-05.csv", "id\n1\n")
    project.put("2026-10-03.csv", "id\n1\n2\n")
    (run,) = project.run().values()
    assert run["batches"] == []
    assert shown(project, "id") == [(1, "2026-10-05 00:00:00", None)]
    assert "2026-10-03.csv" in project.call("ledger", "list", "shop.item").out


@any_kind
def test_an_older_snapshot_with_an_unreadable_row_is_not_applied(project: Project) -> None:
    configure(project, 'key = ["id"]\ncolumns = { id = "int", n = "int" }')
    take(project, "2026-10-05.csv", "id,n\n1,1\n")
    project.put("2026-10-03.csv", "id,n\n1,1\n2,two\n")
    project.call("load-complete", "shop.item")
    assert "1 of its 2 rows cannot be applied" in project.fails()
    assert shown(project, "id") == [(1, "2026-10-05 00:00:00", None)]


@pytest.mark.long
def test_all_keys_with_versions_altered_by_others_are_counted(
    project: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(project, 'key = ["id"]\ncolumns = { id = "int" }')
    take(project, "2026-10-05.csv", "id\n" + "".join(f"{key}\n" for key in range(1500)))
    use_spark_in_commands(monkeypatch)
    monkeypatch.setattr(snapshot_splice, "_versions", lambda _shown, _span, old: f"concat({old}, {old})")
    project.put("2026-10-03.csv", "id\n1\n")
    project.call("load-complete", "shop.item")
    said = project.fails()
    assert "versions of 1,500 keys were altered by others: " in said
    assert "2026-10-03.csv is older than what the table shows" in said


JOINED = """
[tables."shop.price"]
mode = "history"
full_loads = "snapshot"
source = { snapshots = "file", names = '(?P<time>.*)\\.csv' }
key = ["id"]
columns = { id = "int", amount = "int" }

[joined."dw.item"]
mode = "history"

[joined."dw.item".sources.item]
table = "shop.item"
columns = ["id"]

[joined."dw.item".sources.price]
table = "shop.price"
on = ["id"]
columns = ["amount"]
"""


@any_kind
def test_rows_removed_by_a_rewritten_snapshot_leave_joined_tables(project: Project) -> None:
    configure(project, f'key = ["id"]\ncolumns = {{ id = "int" }}\n{JOINED}')
    columns = ("id", "amount")

    def selection(name: str, rows: str) -> Any:
        project.put(name, f"id\n{rows}")
        assert project.call("load-complete", "shop.item").code == 0
        ended = project.call("run", "--once", "--json")
        assert ended.code == 0, ended.out + ended.err
        return ended.document["joined"][0]["last"]

    project.put("2026-10-10.csv", "id,amount\n1,5\n", "shop/price")
    assert project.call("load-complete", "shop.price").code == 0
    selection("2026-10-10.csv", "1\n7\n")
    selection("2026-10-20.csv", "1\n")
    assert project.rows("item", "dw", columns) == [(1, 5), (7, None)]
    last = selection("2026-10-10.csv", "1\n")
    assert project.rows("item", columns=("id",)) == [(1,)]
    assert project.rows("item", "dw", columns) == [(1, 5)]
    assert last["whole"] == ["it is a history of histories"]
