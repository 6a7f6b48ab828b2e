"""Histories that others wrote down, through the fold alone; `docs/reference/cases.md` says which is read how.

Where a feed and what comes of it are from is said in the `case.json` beside each.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from random import Random
from typing import Any

import pytest
from outside import case

from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import LOAD_SEQUENCE, ChangeEvent, Key, Operation, Position
from lakeward.core.history.instants import instant_of
from lakeward.core.history.options import ByColumn, ByRun, History, Track, ValidityColumns
from lakeward.core.history.reloads import rows_before_load
from lakeward.core.history.version_rows import rows as shown_rows
from lakeward.core.merge.fold import Row, apply
from lakeward.core.schema import Column, Schema, Type

STRING, NUMBER, TIME, DAY = Type("string"), Type("bigint"), Type("timestamp"), Type("date")
MICROS = 1_000_000

Cells = Mapping[str, Any]
Rows = Mapping[Key, Row]


def dimension(history: History, columns: Sequence[str], *key: str) -> Dimension:
    schema = Schema(tuple(Column(name, STRING) for name in columns))
    return Dimension(name=TableName("case", "table"), schema=schema, key=key, history=history)


def lines(path: Path, delimiter: str = ",") -> list[dict[str, str | None]]:
    with path.open(encoding="utf-8", newline="") as file:
        found = csv.DictReader(file, delimiter=delimiter)
        return [{n: None if v == r"\N" else v for n, v in line.items() if n} for line in found]


def micros(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp()) * MICROS


def days(text: str) -> int:
    return date.fromisoformat(text).toordinal() - date(1970, 1, 1).toordinal()


def event(of: Dimension, operation: Operation, cells: Cells, instant: int, place: int = 1) -> ChangeEvent:
    key = tuple(cells[name] for name in of.key)
    position = Position(1, instant, place, 1)
    return ChangeEvent(operation=operation, position=position, key=key, cells=cells, instant=instant)


def snapshot(of: Dimension, rows: Rows, cells: Iterable[Cells], epoch: int, instant: int) -> Rows:
    """Return the rows after a snapshot of the whole table, which is a full load of an epoch of its own."""
    load = [
        replace(event(of, Operation.READ, line, instant), position=Position(epoch, LOAD_SEQUENCE, 1, number))
        for number, line in enumerate(cells, 1)
    ]
    return apply(of, rows_before_load(rows, epoch, load, of.history or History(), 0), load).rows


def shown(of: Dimension, rows: Rows) -> list[tuple[Any, ...]]:
    found = [cells for key, row in rows.items() for cells in shown_rows(of, key, row.versions, {})]
    return in_order(tuple(cells.values()) for cells in found)


def in_order(rows: Iterable[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return sorted(rows, key=repr)


def expected(path: Path, of: Dimension) -> list[tuple[Any, ...]]:
    """Return what a case says, its last two columns as times, days or numbers."""
    read = {"timestamp": datetime.fromisoformat, "date": date.fromisoformat, "bigint": int}
    history = of.history or History()
    typed = read[history.validity_columns.type.name]
    found = []
    for line in lines(path):
        *cells, start, end = line.values()
        ends = [None if text is None else typed(text) for text in (start, end)]
        utc = [one.replace(tzinfo=UTC) if isinstance(one, datetime) else one for one in ends]
        found.append((*cells, *utc))
    return in_order(found)


def by_number(**options: Any) -> History:
    return History(validity_columns=ValidityColumns(type=NUMBER, is_current=None), **options)


OPERATIONS = {"INSERT": Operation.INSERT, "UPDATE": Operation.UPDATE, "DELETE": Operation.DELETE}


@pytest.mark.parametrize(
    ("result", "track"), [("scd2.csv", Track()), ("scd2_track_history_except_city.csv", Track(frozenset({"city"})))]
)
def test_the_users_of_auto_cdc_in_any_order(result: str, track: Track) -> None:
    folder = case("scd-autocdc-users")
    users = dimension(by_number(track=track), ["userId", "name", "city"], "userId")
    events = []
    for place, line in enumerate(lines(folder / "input" / "users_cdf.csv")):
        operation, sequence = line.pop("operation"), line.pop("sequenceNum")
        events.append(event(users, OPERATIONS[operation or ""], line, int(sequence or 0), place))
    for seed in range(20):
        rows = apply(users, {}, Random(seed).sample(events, len(events))).rows
        assert shown(users, rows) == expected(folder / "expected" / result, users)


@pytest.mark.parametrize("suffix", ["", "_with_truncate"])
def test_the_users_of_auto_cdc_as_a_mirror(suffix: str) -> None:
    folder = case("scd-autocdc-users")
    users = replace(dimension(History(), ["userId", "name", "city"], "userId"), history=None)
    events = []
    for place, line in enumerate(lines(folder / "input" / f"users_cdf{suffix}.csv")):
        operation, sequence = line.pop("operation"), int(line.pop("sequenceNum") or 0)
        is_truncate = operation == "TRUNCATE"
        truncate = ChangeEvent(operation=Operation.TRUNCATE, position=Position(1, sequence, place, 1))
        events.append(truncate if is_truncate else event(users, OPERATIONS[operation or ""], line, sequence, place))
    rows = apply(users, {}, events).rows
    right = lines(folder / "expected" / f"scd1{suffix}.csv")
    assert in_order(tuple(row.cells.values()) for row in rows.values() if not row.deleted) == in_order(
        tuple(line.values()) for line in right
    )


def test_the_cases_of_spark_s_auto_cdc_batch_by_batch_and_at_once() -> None:
    folder = case("scd2-spark-autocdc-basic")
    table = dimension(by_number(), ["id", "value"], "id")
    cases, expected_cases = (
        json.loads((folder / part / "cases.json").read_text("utf-8")) for part in ("input", "expected")
    )
    for one, result in zip(cases, expected_cases, strict=True):
        before = [seed for row in one["target_before"] for seed in seeded(table, row, one["target_before"])]
        batches = [before, *([changed(table, line) for line in batch] for batch in one["batches"])]
        rows: Rows = {}
        for batch in batches:
            rows = apply(table, rows, batch).rows
        right = in_order(tuple(row.values()) for row in result["rows"])
        assert shown(table, rows) == right, one["name"]
        assert shown(table, apply(table, {}, [e for batch in batches for e in batch]).rows) == right, one["name"]


def changed(table: Dimension, line: Cells) -> ChangeEvent:
    operation = Operation.DELETE if line["is_delete"] else Operation.UPDATE
    return event(table, operation, {"id": line["id"], "value": line["value"]}, line["seq"])


def seeded(table: Dimension, row: Cells, others: Sequence[Cells]) -> Iterable[ChangeEvent]:
    """Return events that leave a version: an upsert where it begins, a delete at an end where none follows."""
    cells = {"id": row["id"], "value": row["value"]}
    yield event(table, Operation.UPDATE, cells, row["start"])
    if row["end"] is not None and not any(o["id"] == row["id"] and o["start"] == row["end"] for o in others):
        yield event(table, Operation.DELETE, cells, row["end"])


def test_a_table_that_is_snapshotted_twice_a_day() -> None:
    folder = case("scd2-from-periodic-snapshot")
    table = dimension(History(validity_columns=ValidityColumns(is_current=None)), ["Key", "Value"], "Key")
    rows: Rows = {}
    for epoch, path in enumerate(sorted((folder / "input").iterdir()), 1):
        instant = micros(f"{path.stem[:10]} {path.stem[11:].replace('-', ':')}")
        rows = snapshot(table, rows, lines(path), epoch, instant)
    assert shown(table, rows) == expected(folder / "expected" / "scd2.csv", table)


@pytest.mark.parametrize(
    ("result", "open_end"),
    [("after_run2.csv", None), ("after_run2_open_end_2099.csv", micros("2099-12-31 00:00:00"))],
)
def test_people_whose_rows_have_the_time_of_their_change(result: str, open_end: int | None) -> None:
    folder = case("scd2-dbt-snapshot-timestamp")
    history = History(
        validity=ByColumn("updated_at"), validity_columns=ValidityColumns(is_current=None, open_end=open_end)
    )
    names = ["id", "first_name", "last_name", "email", "gender", "ip_address", "updated_at"]
    people = dimension(history, names, "id", "first_name")
    rows: Rows = {}
    for epoch, run in enumerate(("run1.csv", "run2.csv"), 1):
        load = []
        for number, line in enumerate(lines(folder / "input" / run), 1):
            read = event(people, Operation.READ, line, 0)
            moment = datetime.fromisoformat(line["updated_at"] or "").replace(tzinfo=UTC)
            at = instant_of(replace(read, cells={**line, "updated_at": moment}), history, 0)
            load.append(replace(read, position=Position(epoch, LOAD_SEQUENCE, 1, number), instant=at))
        rows = apply(people, rows_before_load(rows, epoch, load, history, 0), load).rows
    assert shown(people, rows) == expected(folder / "expected" / result, people)


@pytest.mark.parametrize(
    ("way", "track"),
    [
        ("all_columns", Track()),
        ("name_only", Track(frozenset({"name"}), but=False)),
        ("date_only", Track(frozenset({"some_date"}), but=False)),
    ],
)
def test_only_changes_of_tracked_columns_open_versions(way: str, track: Track) -> None:
    folder = case("scd2-dbt-check-cols-counts")
    table = dimension(by_number(track=track), ["id", "name", "some_date"], "id")
    base, added = (lines(folder / "input" / f"{name}.csv") for name in ("base", "added"))
    moved = [{**line, "some_date": "moved"} if int(line["id"] or 0) > 10 else line for line in added]
    renamed = [
        {**line, "name": f"{line['name']}_updated"} if int(line["id"] or 0) <= 10 else line for line in moved
    ]
    rows, counts = dict[Key, Row](), []
    for epoch, run in enumerate((base, added, moved, renamed), 1):
        rows = dict(snapshot(table, rows, run, epoch, epoch))
        counts.append(sum(len(row.versions) for row in rows.values()))
    assert counts == json.loads((folder / "expected" / "counts.json").read_text("utf-8"))[way]


def test_loads_of_dlt() -> None:
    folder = case("scd2-dlt-core")
    table = dimension(by_number(), ["nk", "c1", "c2__nc1"], "nk")
    loads, expected_cases = (
        json.loads((folder / path).read_text("utf-8")) for path in ("input/loads.json", "expected/after_load.json")
    )
    rows: Rows = {}
    for epoch, (load, result) in enumerate(zip(loads, expected_cases, strict=True), 1):
        cells = [{"nk": line["nk"], "c1": line["c1"], "c2__nc1": line["c2"]["nc1"]} for line in load]
        rows = snapshot(table, rows, cells, epoch, epoch)
        assert shown(table, rows) == in_order(
            (
                row["nk"],
                row["c1"],
                row["c2__nc1"],
                *(row[end] and int(row[end][1:]) for end in ("valid_from", "valid_to")),
            )
            for row in result
        )


def test_updates_of_mack() -> None:
    folder = case("scd2-mack-delta")
    cases, expected_cases = (
        json.loads((folder / part / "cases.json").read_text("utf-8")) for part in ("input", "expected")
    )
    for one, result in zip(cases, expected_cases, strict=True):
        names = [name for name in one["target_before"][0] if name not in ("is_current", "effective", "end")]
        table = dimension(History(validity_columns=ValidityColumns(type=NUMBER)), names, "pkey")
        events = [
            event(table, Operation.UPDATE, {name: line[name] for name in names}, number(line["effective"]))
            for line in [*one["target_before"], *one["updates"]]
        ]
        right = [
            (*(row[name] for name in names), number(row["effective"]), number(row["end"]), row["is_current"])
            for row in result["rows"]
        ]
        assert shown(table, apply(table, {}, events).rows) == in_order(right)


def number(value: Any) -> Any:
    return micros(value) if isinstance(value, str) else value


def test_an_older_snapshot_that_comes_after_a_newer_one() -> None:
    """As events: what a snapshot has is read at its day, what it lacks is deleted there."""
    folder = case("scd2-snapshots-backfill-housing")
    names = ["prop_id", "house_type", "has_furniture", "surface", "price"]
    table = dimension(
        History(validity_columns=ValidityColumns(type=DAY, is_current=None), track=PRICE), names, "prop_id"
    )
    runs = [("today.csv", "2023-02-18", "after_today_only.csv")]
    runs += [("02_01_2023.csv", "2023-01-02", "after_backfill_2023-01-02.csv")]
    held: dict[str, list[dict[str, str | None]]] = {}
    for name, day, result in runs:
        held[day] = lines(folder / "input" / name, ";")
        keys = {line["prop_id"] for found in held.values() for line in found}
        rows = apply(table, {}, [e for at, found in held.items() for e in seen(table, found, keys, days(at))]).rows
        expected_cases = [
            (line["prop_id"], (line["valid_from"] or "")[:10], next_day(line["expired"]))
            for line in lines(folder / "expected" / result)
        ]
        found = [(row[0], str(row[-2]), row[-1]) for row in shown(table, rows)]
        assert in_order(found) == in_order(expected_cases)


PRICE = Track(frozenset({"price"}), but=False)


def seen(
    table: Dimension, found: Sequence[Cells], keys: Iterable[str | None], instant: int
) -> Iterable[ChangeEvent]:
    held = {line["prop_id"]: line for line in found}
    for key in keys:
        operation = Operation.READ if key in held else Operation.DELETE
        yield event(table, operation, held.get(key, {"prop_id": key}), instant)


def next_day(expired: str | None) -> date | None:
    """The case ends a version with the last second before the next snapshot's day."""
    return None if expired is None else date.fromordinal(date.fromisoformat(expired[:10]).toordinal() + 1)


def test_a_dimension_that_two_tables_feed_is_dated_by_its_runs() -> None:
    """The newest row of each table, joined; what the run brings begins on its day, and ends on the day before."""
    folder = case("scd2-two-sources-redshift")
    closed = ValidityColumns(
        type=DAY, closed=True, open_end=days("9999-12-31"), is_current=None, valid_from="eff", valid_to="exp"
    )
    history = History(validity=ByRun(), first_load=days("2022-07-01"), validity_columns=closed)
    names = ["customer_id", "first_name", "last_name", "employer_name", "email_id", "city", "country"]
    customers = dimension(history, names, "customer_id")
    rows: Rows = {}
    for run, (suffix, sequence) in enumerate((("", LOAD_SEQUENCE), ("_incr", 1)), 1):
        master, address = (
            lines(folder / "input" / f"customer_{t}_with_ts{suffix}.csv") for t in ("master", "address")
        )
        joined = {line["customer_id"]: dict(line) for line in master}
        for line in address:
            joined[line["customer_id"]] |= line
        events = []
        for place, line in enumerate(joined.values(), 1):
            read = event(customers, Operation.READ, {name: line[name] for name in names}, 0)
            read = replace(read, position=Position(1, sequence, run, place), instant=None)
            events.append(replace(read, instant=instant_of(read, history, micros("2023-03-19 08:00:00"))))
        rows = apply(customers, rows, events).rows
    assert shown(customers, rows) == expected(folder / "expected" / "dim_customer.csv", customers)
