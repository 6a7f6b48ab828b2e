"""Options of a history: what dates an event, how versions are shown, and what is refused."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal

import memory_jobs
import pytest
from memory_jobs import item

from lakeward.core.dimension import Mode
from lakeward.core.errors import ConfigError
from lakeward.core.events import UNSET, ChangeEvent, Operation, Position
from lakeward.core.history.instants import day_of, instant_of, value_of_instant
from lakeward.core.history.options import (
    ByColumn,
    ByRun,
    History,
    Kind,
    Surrogate,
    Track,
    Validity,
    ValidityColumns,
)
from lakeward.core.history.version_rows import rows, surrogate_hash
from lakeward.core.history.versions import Version
from lakeward.core.schema import Column, Schema, Type

DATE, TIMESTAMP = Type("date"), Type("timestamp")
SCHEMA = Schema((Column("id", Type("int")), Column("a", Type("string")), Column("seen", TIMESTAMP)))
DIMENSION = item(SCHEMA, history=History())
NOON = 12 * 3_600_000_000
DAY = 2 * NOON
PLACE = Position(1, 5, 1, 1)


def event(operation: Operation = Operation.UPDATE, time: int | None = NOON, **cells: object) -> ChangeEvent:
    return memory_jobs.event(operation, 5, at=1, time=time, **cells)


def by(validity: Validity, type_: Type = TIMESTAMP, **options: object) -> History:
    return replace(History(validity=validity, validity_columns=ValidityColumns(type=type_)), **options)


def test_an_event_counts_from_its_source_time_and_without_one_from_the_run() -> None:
    assert instant_of(event(), History(), 5) == NOON
    assert instant_of(event(time=None), History(), 5) == 5


def test_days_are_cut_where_the_source_is() -> None:
    late = NOON + 11 * 3_600_000_000
    assert (
        instant_of(event(time=late), History(zone="Europe/Berlin", validity_columns=ValidityColumns(type=DATE)), 0)
        == 1
    )
    assert (day_of(-1, "UTC"), day_of(0, "America/New_York"), day_of(DAY, "UTC")) == (-1, -1, 1)


def test_the_day_of_the_run_may_date_what_it_brings() -> None:
    assert instant_of(event(), by(ByRun(), DATE), 3 * DAY) == 3


@pytest.mark.parametrize(
    ("value", "type_", "found"),
    [
        (7, Type("bigint"), 7),
        (Decimal(7), Type("decimal", 38), 7),
        (date(1970, 1, 3), DATE, 2),
        (datetime(1970, 1, 1, 12, tzinfo=UTC), TIMESTAMP, NOON),
        (datetime(1970, 1, 1, 12), Type("timestamp_ntz"), NOON),
        (datetime(1970, 1, 2, 23), DATE, 1),
        (None, TIMESTAMP, None),
        (UNSET, TIMESTAMP, None),
    ],
)
def test_a_column_may_date_events(value: object, type_: Type, found: int | None) -> None:
    assert instant_of(event(seen=value), by(ByColumn("seen"), type_), 0) == found


def test_a_delete_has_its_source_time_or_the_run_where_a_column_dates_events() -> None:
    before = datetime(1970, 1, 1, tzinfo=UTC)
    assert instant_of(event(Operation.DELETE, seen=before), by(ByColumn("seen")), 0) == NOON
    assert instant_of(event(Operation.DELETE, time=None, seen=before), by(ByColumn("seen")), 5) == 5
    assert instant_of(event(Operation.DELETE, seen=7), by(ByColumn("seen"), Type("int")), 0) == 7


def test_instants_are_shown_in_the_type_of_their_columns() -> None:
    assert value_of_instant(1, DATE) == date(1970, 1, 2)
    assert value_of_instant(NOON, TIMESTAMP) == datetime(1970, 1, 1, 12, tzinfo=UTC)
    assert value_of_instant(NOON, Type("timestamp_ntz")) == datetime(1970, 1, 1, 12)
    assert (value_of_instant(7, Type("bigint")), value_of_instant(7, Type("decimal", 38))) == (7, Decimal(7))


def version(start: int, end: int | None, a: str, **rest: object) -> Version:
    made = Version(start, end, {"id": 1, "a": a, "seen": None}, PLACE, start, end is not None)
    return replace(made, **rest)


TWO = (version(0, 3, "x", deleted=False), version(3, None, "y", previous_key=(9,)))


def as_shown(history: History) -> list[dict[str, object]]:
    dimension = replace(DIMENSION, history=history)
    return [dict(row) for row in rows(dimension, (1,), TWO, {((1,), 0): 41, ((1,), 3): 7})]


def test_the_current_value_is_on_every_version() -> None:
    found = [(row["a"], row["current_a"]) for row in as_shown(History(kinds={"a": Kind.CURRENT}))]
    assert found == [("x", "y"), ("y", "y")]


@pytest.mark.parametrize(
    ("part", "written"),
    [("Köln 🚉", '["Köln 🚉"]'), ('"\n\x1b', r'["\"\n\u001B"]'), (r"\u001b", r'["\\u001b"]'), ("\x7f", '["\x7f"]')],
)
def test_the_key_before_is_written_as_spark_writes_it(part: str, written: str) -> None:
    history = History(previous_key=True)
    dimension = replace(
        DIMENSION, schema=Schema((Column("id", Type("string")), *SCHEMA.columns[1:])), history=history
    )
    moved = version(3, None, "y", previous_key=(part,))
    assert [row["_previous_key"] for row in rows(dimension, ("Bonn",), (moved,), {})] == [written]


def test_a_surrogate_number_is_that_of_its_version() -> None:
    found = as_shown(History(validity_columns=ValidityColumns(surrogate=Surrogate.NUMBER)))
    assert [row["version_key"] for row in found] == [41, 7]


def test_a_surrogate_hash_is_of_key_and_start() -> None:
    found = as_shown(History(validity_columns=ValidityColumns(surrogate=Surrogate.HASH)))
    assert [row["version_key"] for row in found] == [surrogate_hash(DIMENSION, (1,), start) for start in (0, 3)]
    assert surrogate_hash(DIMENSION, (1,), 0) == hashlib.sha256(b"1:11:0").hexdigest()


@pytest.mark.parametrize(
    ("history", "key", "found"),
    [
        (History(), (), "a history needs a key"),
        (History(track=Track(frozenset({"b"}))), ("id",), "no column b"),
        (History(kinds={"b": Kind.PREVIOUS}), ("id",), "no column b"),
        (History(kinds={"id": Kind.OVERWRITE}), ("id",), "id is of the key"),
        (History(track=Track(frozenset({"id", "a"}), but=False)), ("id",), "id is of the key"),
        (History(validity_columns=ValidityColumns(valid_from="A")), ("id",), "two columns a"),
        (History(validity_columns=ValidityColumns(type=Type("string"))), ("id",), "valid_from is a string"),
        (History(validity_columns=ValidityColumns(closed=True)), ("id",), "valid_from is a timestamp"),
        (by(ByRun()), ("id",), "valid_from is a timestamp"),
        (by(ByColumn("id")), ("id",), "valid_from is a timestamp"),
        (by(ByColumn("seen"), Type("bigint")), ("id",), "valid_from is a bigint"),
        (by(ByColumn("b")), ("id",), "no column b"),
        (by(ByColumn("a")), ("id",), "a, which dates its versions, is a string"),
        (by(ByColumn("cost"), Type("bigint")), ("id",), "cost, which dates its versions, is a decimal(8,2)"),
        (by(ByColumn("id"), DATE), ("id",), "valid_from is a date"),
    ],
)
def test_options_that_do_not_fit_the_table_are_refused(history: History, key: tuple[str, ...], found: str) -> None:
    with pytest.raises(ConfigError) as refused:
        history.check("shop.item", Schema((*SCHEMA, Column("cost", Type("decimal", 8, 2)))), key)
    assert refused.value.found == found


def test_an_unknown_column_is_refused_with_the_most_similar_name() -> None:
    with pytest.raises(ConfigError) as refused:
        History(kinds={"sen": Kind.PREVIOUS}).check("shop.item", SCHEMA, ("id",))
    assert refused.value.todo == "Did you mean 'seen'?"


def test_options_that_fit_the_table_are_accepted() -> None:
    History(track=Track(frozenset({"id"}))).check("shop.item", SCHEMA, ("id",))
    for history in (History(), by(ByRun(), DATE), by(ByColumn("seen")), by(ByColumn("id"), Type("bigint"))):
        history.check("shop.item", SCHEMA, ("id",))
    assert (DIMENSION.mode, replace(DIMENSION, history=None).mode) == (Mode.HISTORY, Mode.MIRROR)
