"""Published histories, through settings and commands. `docs/reference/cases.md` lists them.

Their conventions differ in names, open ends, days and tracked columns. Rows are delivered in the runs of the case,
as JSON lines, or as Parquet where Spark reads no JSON. If the case only gives the order of the runs, file names
have the days.
"""

from __future__ import annotations

import csv
import io
import json
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from outside import case
from project import Project, any_kind

from lakeward.adapters.spark.session.compatibility import line as line_of_spark

pytestmark = pytest.mark.spark


SETTINGS = """
[pipeline]
name = "cases"

[source]
kind = "files"
path = "landing"
format = "{format}"
{source}

[target]
kind = "{kind}"
warehouse = "lake"

[defaults]
mode = "history"
{defaults}
"""

FORMAT = "parquet" if line_of_spark() == "3.5" else "json"
ARROW = {
    "int": pa.int32(),
    "bigint": pa.int64(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", "UTC"),
    "struct<nc1:string>": pa.struct({"nc1": pa.string()}),
}

Cells = Mapping[str, Any]


@dataclass(frozen=True)
class Kept:
    """A table with its settings, the rows that each run delivers, and the rows that it must show after each run."""

    name: str
    settings: str
    runs: Sequence[Sequence[Cells]]
    columns: tuple[str, ...]
    results: Mapping[int, Sequence[tuple[Any, ...]]] = field(default_factory=dict)
    counts: Sequence[int] = ()
    is_history: bool = True


def play(project: Project, tables: Sequence[Kept], source: str, defaults: str, name: str, *, whole: bool) -> None:
    """Deliver the files of each run to all tables, and compare the rows that each shows."""
    sections = [f'[tables."case.{table.name}"]\n{table.settings}\n' for table in tables]
    text = SETTINGS.format(source=source, format=FORMAT, kind=project.kind, defaults=defaults)
    (project.folder / "lakeward.toml").write_text(text + "\n".join(sections), "utf-8")
    for run in range(max(len(table.runs) for table in tables)):
        due = [table for table in tables if run < len(table.runs)]
        for table in due:
            project.put(f"{name.format(run + 1)}.{FORMAT}", file_of_run(table, run), f"case/{table.name}")
            if whole:
                assert project.call("load-complete", f"case.{table.name}").code == 0
        project.run()
        for table in due:
            found = project.read(table.name, "case", table.columns)
            if run in table.results:
                shown = [tuple(plain(value) for value in row) for row in found]
                assert sorted(shown, key=repr) == sorted(table.results[run], key=repr), (table.name, run)
            if table.counts:
                assert len(found) == table.counts[run], (table.name, run)
    kept = [table for table in tables if table.is_history]
    ended = [project.call("verify", "--history", f"case.{table.name}") for table in kept]
    assert [one.code for one in ended] == [0] * len(kept)


def file_of_run(table: Kept, run: int) -> bytes:
    """Return the file of a run."""
    rows = table.runs[run]
    if FORMAT == "json":
        return "".join(json.dumps(row) + "\n" for row in rows).encode()
    declared = tomllib.loads(table.settings)["columns"]
    said = {name: [row.get(name) for row in rows] for name in {**declared, **rows[0]}}
    file = io.BytesIO()
    pq.write_table(pa.table({name: as_arrow(cells, declared.get(name)) for name, cells in said.items()}), file)
    return file.getvalue()


def as_arrow(cells: Sequence[Any], type_: str | None) -> pa.Array:
    """Return cells for Parquet, converted to the declared types."""
    if type_ == "timestamp":
        cells = [cell and datetime.fromisoformat(cell).replace(tzinfo=UTC) for cell in cells]
    return pa.array(cells, type_ and ARROW[type_])


def plain(value: Any) -> Any:
    """Return a value as the cases write it, times and days as texts."""
    if isinstance(value, datetime):
        return (value if value.tzinfo is None else value.astimezone(UTC)).strftime("%Y-%m-%d %H:%M:%S")
    return value.isoformat() if isinstance(value, date) else value


def lines(path: Path) -> list[dict[str, str | None]]:
    with path.open(encoding="utf-8", newline="") as file:
        return [{n: None if v == r"\N" else v for n, v in line.items() if n} for line in csv.DictReader(file)]


def documents(folder: Path, *paths: str) -> list[Any]:
    return [json.loads((folder / path).read_text("utf-8")) for path in paths]


# Changes with a sequence.


USERS = """key = ["userId"]
source.order_by = "sequenceNum"
source.operation = { column = "operation", delete = ["DELETE"], truncate = ["TRUNCATE"] }
columns = { userId = "string", name = "string", city = "string", sequenceNum = "bigint" }
"""


def users_cdf(suffix: str = "") -> list[Cells]:
    events = lines(case("scd-autocdc-users") / "input" / f"users_cdf{suffix}.csv")
    return [{**line, "sequenceNum": int(line["sequenceNum"] or 0)} for line in events]


def users(name: str, track: str, result: str) -> Kept:
    expected = lines(case("scd-autocdc-users") / "expected" / result)
    return Kept(
        name,
        f"""{USERS}track = {{ all_but = [{track}] }}
history = {{ validity = {{ column = "sequenceNum" }}, type = "bigint", valid_from = "start", valid_to = "end" }}
""",
        [users_cdf()],
        ("userId", "name", "city", "start", "end"),
        {
            0: [
                (*cells, int(start or 0), end and int(end))
                for *cells, start, end in (row.values() for row in expected)
            ]
        },
    )


def mirrors_of_users(suffix: str) -> list[Kept]:
    """Return the feed in one run, and in three runs of which the last has older changes."""
    events = users_cdf(suffix)
    expected = [
        tuple(line.values()) for line in lines(case("scd-autocdc-users") / "expected" / f"scd1{suffix}.csv")
    ]
    settings, shown = f'{USERS}mode = "mirror"\n', ("userId", "name", "city")
    runs = [events[:4], events[4:6], events[6:]]
    return [
        Kept(f"newest{suffix}", settings, [events], shown, {0: expected}, is_history=False),
        Kept(f"newest_in_runs{suffix}", settings, runs, shown, {2: expected}, is_history=False),
    ]


def spark_s_auto_cdc() -> Kept:
    """Return the cases of Spark in one table, each with its own key column value."""
    given, expected = documents(case("scd2-spark-autocdc-basic"), "input/cases.json", "expected/cases.json")
    runs: list[list[Cells]] = [[], [], []]
    right: list[tuple[Any, ...]] = []
    for one, result in zip(given, expected, strict=True):
        own, before = one["case"], one["target_before"]
        batches = [[seed for row in before for seed in events_of_version(row, before)], *one["batches"]]
        for run, batch in zip(runs, batches, strict=False):
            run += [{"part": own, **line} for line in batch]
        right += [(own, *row.values()) for row in result["rows"]]
    return Kept(
        "auto",
        """key = ["part", "id"]
track = { all_but = ["seq"] }
source = { order_by = "seq", operation = { column = "is_delete", delete = ["true"] } }
columns = { part = "int", id = "int", value = "string", seq = "bigint" }
history = { validity = { column = "seq" }, type = "bigint" }
""",
        runs,
        ("part", "id", "value", "valid_from", "valid_to"),
        {2: right},
    )


def events_of_version(row: Cells, others: Sequence[Cells]) -> Iterable[Cells]:
    """Return the events of a version: an upsert at its start, and a delete at its end if no version follows."""
    cells = {"id": row["id"], "value": row["value"]}
    yield {**cells, "seq": row["start"], "is_delete": False}
    if row["end"] is not None and not any(o["id"] == row["id"] and o["start"] == row["end"] for o in others):
        yield {**cells, "seq": row["end"], "is_delete": True}


def of_mack(place: int) -> Kept:
    given, expected = documents(case("scd2-mack-delta"), "input/cases.json", "expected/cases.json")
    one, result = given[place], expected[place]["rows"]
    names = [name for name in one["target_before"][0] if name not in ("is_current", "effective", "end")]
    type_ = "bigint" if isinstance(one["target_before"][0]["effective"], int) else "timestamp"
    own = ", ".join(f'{name} = "{"int" if name == "pkey" else "string"}"' for name in names)
    before = [{name: line[name] for name in (*names, "effective")} for line in one["target_before"]]
    return Kept(
        f"mack{place}",
        f"""key = ["pkey"]
track = {{ all_but = ["effective"] }}
source = {{ order_by = "effective" }}
columns = {{ {own}, effective = "{type_}" }}
history = {{ validity = {{ column = "effective" }}, type = "{type_}", valid_from = "since", valid_to = "end" }}
""",
        [before, one["updates"]],
        (*names, "since", "end", "is_current"),
        {1: [tuple(row[name] for name in (*names, "effective", "end", "is_current")) for row in result]},
    )


@any_kind
def test_changes_with_a_sequence_column(project: Project) -> None:
    but_city = users("but_city", '"sequenceNum", "city"', "scd2_track_history_except_city.csv")
    tables = [
        users("users", '"sequenceNum"', "scd2.csv"),
        but_city,
        *mirrors_of_users(""),
        *mirrors_of_users("_with_truncate"),
        spark_s_auto_cdc(),
        *map(of_mack, range(4)),
    ]
    play(project, tables, "", 'lateness = "unbounded"', "{}", whole=False)


# Snapshots.


def people() -> Kept:
    folder = case("scd2-dbt-snapshot-timestamp")
    names = ("id", "first_name", "last_name", "email", "gender", "ip_address", "updated_at")
    own = ", ".join(f'{name} = "{"timestamp" if name == "updated_at" else "string"}"' for name in names)
    expected = lines(folder / "expected" / "after_run2_open_end_2099.csv")
    return Kept(
        "people",
        f"""key = ["id", "first_name"]
columns = {{ {own} }}
history = {{ validity = {{ column = "updated_at" }}, open_end = "2099-12-31" }}
source = {{ names = 'whole-.*' }}
""",
        [lines(folder / "input" / f"run{run}.csv") for run in (1, 2)],
        (*names, "valid_from", "valid_to"),
        {1: [tuple(row.values()) for row in expected]},
    )


def case_of_counts(way: str, track: str) -> Kept:
    folder = case("scd2-dbt-check-cols-counts")
    base, added = (lines(folder / "input" / f"{name}.csv") for name in ("base", "added"))
    moved = [{**line, "some_date": "2026-01-01"} if int(line["id"] or 0) > 10 else line for line in added]
    renamed = [{**line, "name": f"{line['name']}_"} if int(line["id"] or 0) <= 10 else line for line in moved]
    (expected,) = documents(folder, "expected/counts.json")
    columns = 'columns = { id = "string", name = "string", some_date = "string" }'
    return Kept(
        way, f'key = ["id"]\n{track}\n{columns}\n', [base, added, moved, renamed], ("id",), {}, expected[way]
    )


def of_dlt() -> Kept:
    loads, expected = documents(case("scd2-dlt-core"), "input/loads.json", "expected/after_load.json")
    results = {
        run: [
            (row["nk"], row["c1"], {"nc1": row["c2__nc1"]}, day(row["valid_from"]), day(row["valid_to"]))
            for row in rows
        ]
        for run, rows in enumerate(expected)
    }
    columns = 'columns = { nk = "int", c1 = "string", c2 = "struct<nc1:string>" }'
    shown = ("nk", "c1", "c2", "valid_from", "valid_to")
    return Kept("dlt", f'key = ["nk"]\n{columns}\n', loads, shown, results)


def day(load: str | None) -> str | None:
    """Return the time of a load of the case, which it calls t1, t2, …"""
    return load and f"2026-10-0{load[1:]} 00:00:00"


@pytest.mark.long
@any_kind
def test_snapshots_of_whole_tables(project: Project) -> None:
    tables = [
        people(),
        case_of_counts("all_columns", ""),
        case_of_counts("name_only", 'track = ["name"]'),
        case_of_counts("date_only", 'track = ["some_date"]'),
        of_dlt(),
    ]
    source = f"snapshots = \"file\"\nnames = 'whole-(?P<time>.*)\\.{FORMAT}'"
    play(project, tables, source, 'full_loads = "snapshot"\nleast_share = 0', "whole-2026-10-0{}", whole=True)
