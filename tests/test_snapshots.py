"""Tables whose files are snapshots, kept as histories; also where an older one comes behind newer ones."""

from __future__ import annotations

import csv
from datetime import UTC, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from history_model import of_one_key
from outside import case
from project import Project, any_kind

from lakeward.plugins.testing.histories import Features, feed

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
source = {{ snapshots = "file", names = '(?P<time>.*)\\.csv' }}
{table}
"""


def configure(project: Project, table: str, source: str = "") -> None:
    text = SETTINGS.format(kind=project.kind, table=table, source=source)
    (project.folder / "lakeward.toml").write_text(text, "utf-8")


def take(project: Project, name: str, content: str) -> dict[str, Any]:
    """Deliver a snapshot, say that it is whole, and return what the run says of its batch."""
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
def test_houses_of_which_an_older_snapshot_comes_late(project: Project) -> None:
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
        told = [(int(a or 0), (b or "")[:10], c and c[:10]) for a, b, c in lines(folder / "expected" / result)]
        found = project.rows("item", columns=("prop_id", "valid_from", "valid_to"))
        assert [(row[0], str(row[1]), row[2] and str(row[2])) for row in found] == sorted(told)


@any_kind
@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_snapshots_in_any_order_give_the_history_of_their_feed(project: Project, seed: int) -> None:
    random = Random(seed)
    shape = "type = 'date'\nclosed = true\nsurrogate = 'number'"
    shape = shape if seed == 1 else "kinds = { b = 6 }\nsurrogate = 'hash'\nknown = true"
    columns = 'columns = { id = "int", a = "int", b = "int" }'
    configure(project, f'key = ["id"]\n{columns}\n[tables."shop.item".history]\n{shape}')
    states = [state for state in feed(random, Features(transactions=30)).states if state]
    points = sorted(random.sample(range(len(states)), 5))
    for point in random.sample(points, len(points)):
        rows = "".join(f"{key},{row['a']},{row['b']}\n" for key, row in states[point].items())
        take(project, f"2026-10-{point + 1:02}.csv", f"id,a,b\n{rows}")
    expected, closed = [], seed == 1
    for key in {key for point in points for key in states[point]}:
        moments = [(point + 1, states[point].get(key)) for point in points]
        expected += [(key, v.image["a"], v.image["b"], v.valid_from, v.valid_to) for v in of_one_key(moments, "ab")]
    known = () if closed else ("known_to",)
    found = project.rows("item", columns=("id", "a", "b", "valid_from", "valid_to", *known))
    found = [row[:5] for row in found if row[5:] in ((), (None,))]
    assert [(*row[:3], row[3].day, row[4] and row[4].day + closed) for row in found] == sorted(expected)
    if closed:
        numbers = [number for (number,) in project.rows("item", columns=("version_key",))]
        assert len({*numbers}) == len(numbers)
        assert min(numbers) > 0
    else:
        told = project.read("item", "shop", ("known_from", "known_to"))
        assert all(since >= 1 and (until is None or since < until) for since, until in told)


@pytest.mark.long
def test_a_row_that_a_snapshot_lacks_keeps_its_version_where_a_column_dates_all_alike(project: Project) -> None:
    columns = 'key = ["id"]\ncolumns = { id = "int", at = "timestamp" }'
    configure(project, columns, 'order_by = "at"')
    take(project, "2026-10-05.csv", "id,at\n1,2026-10-01 00:00:00\n2,2026-10-01 00:00:00\n")
    take(project, "2026-10-06.csv", "id,at\n1,2026-10-01 00:00:00\n")
    began = "2026-10-01 00:00:00"
    assert shown(project, "id") == [(1, began, None), (2, began, "2026-12-01 00:00:00")]


@any_kind
def test_an_older_snapshot_is_left_out_where_the_settings_say_so(project: Project) -> None:
    configure(project, 'key = ["id"]\ncolumns = { id = "int" }\nolder_snapshots = "skip"')
    take(project, "2026-10-05.csv", "id\n1\n")
    project.put("2026-10-03.csv", "id\n1\n2\n")
    (run,) = project.run().values()
    assert run["batches"] == []
    assert shown(project, "id") == [(1, "2026-10-05 00:00:00", None)]
    assert "2026-10-03.csv" in project.call("ledger", "list", "shop.item").out


@any_kind
def test_an_older_snapshot_with_a_row_that_cannot_be_read_is_not_taken(project: Project) -> None:
    configure(project, 'key = ["id"]\ncolumns = { id = "int", n = "int" }')
    take(project, "2026-10-05.csv", "id,n\n1,1\n")
    project.put("2026-10-03.csv", "id,n\n1,1\n2,two\n")
    project.call("load-complete", "shop.item")
    assert "1 of its 2 rows cannot be applied" in project.fails()
    assert shown(project, "id") == [(1, "2026-10-05 00:00:00", None)]


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
def test_what_a_snapshot_that_is_written_anew_takes_out_goes_from_joined_tables(project: Project) -> None:
    configure(project, f'key = ["id"]\ncolumns = {{ id = "int" }}\n{JOINED}')
    columns = ("id", "amount")

    def taken(name: str, rows: str) -> Any:
        project.put(name, f"id\n{rows}")
        assert project.call("load-complete", "shop.item").code == 0
        ended = project.call("run", "--once", "--json")
        assert ended.code == 0, ended.out + ended.err
        return ended.document["joined"][0]["last"]

    project.put("2026-10-10.csv", "id,amount\n1,5\n", "shop/price")
    assert project.call("load-complete", "shop.price").code == 0
    taken("2026-10-10.csv", "1\n7\n")
    taken("2026-10-20.csv", "1\n")
    assert project.rows("item", "dw", columns) == [(1, 5), (7, None)]
    last = taken("2026-10-10.csv", "1\n")
    assert project.rows("item", columns=("id",)) == [(1,)]
    assert project.rows("item", "dw", columns) == [(1, 5)]
    assert last["whole"] == ["item took an older snapshot in batch 3"]
