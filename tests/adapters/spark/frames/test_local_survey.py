"""What is found of the event frame of a small batch is what Spark finds of the same rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from random import Random
from typing import Any, Final

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from sparkless import no_spark

from lakeward.adapters.spark.checks.refused_files import find_refusals
from lakeward.adapters.spark.frames import local_survey
from lakeward.adapters.spark.frames.event_frame import AHEAD, DATABASE, INITIAL, NO_PLACE, SKIPPED
from lakeward.adapters.spark.frames.frame_survey import lift_places, log_steps, steps_back, survey, with_ahead
from lakeward.adapters.spark.frames.local_frame import LocalFrame, in_spark
from lakeward.adapters.spark.session.compatibility import to_arrow
from lakeward.adapters.spark.sql import names
from lakeward.core.checks.log_restart import LogRestart
from lakeward.core.checks.log_steps import OPEN_FOR, LogName, LogReached, SnapshotPlace
from lakeward.core.dimension import Dimension, TableName, Within
from lakeward.core.events import LOAD_SEQUENCE, READ_SEQUENCE, Operation, Sequences
from lakeward.core.merge.change_log import Reason
from lakeward.core.schema import Column, Schema, Type

KEY: Final = {
    "i": (Type("int"), pa.int32(), lambda n: n),
    "b": (Type("bigint"), pa.int64(), lambda n: n << 40),
    "d": (Type("decimal", 5, 2), pa.decimal128(5, 2), lambda n: Decimal(n) / 100),
    "day": (Type("date"), pa.date32(), lambda n: date(2026, 1, 1) + timedelta(days=n)),
    "at": (
        Type("timestamp"),
        pa.timestamp("us", "UTC"),
        lambda n: datetime(1960, 1, 1, tzinfo=UTC) + timedelta(seconds=n, microseconds=n),
    ),
    "wall": (Type("timestamp_ntz"), pa.timestamp("us"), lambda n: datetime(1960, 1, 1) + timedelta(microseconds=n)),
    "t": (Type("string"), pa.string(), str),
}
SCHEMA: Final = Schema(tuple(Column(name, of[0]) for name, of in KEY.items()))
LOG: Final = "_lakeward_log"
FLAG: Final = "_lakeward_torn"


def dimension(sequences: Sequences, lateness: int) -> Dimension:
    return Dimension(
        name=TableName("s", "t"), schema=SCHEMA, key=tuple(KEY), sequences=sequences, lateness=Within(lateness)
    )


def rows_of(random: Random, objects: int, sequence: pa.DataType) -> pa.Table:
    """Return an event frame of so many objects, of few rows each, that are alike in much."""
    made: dict[str, list[Any]] = {}

    def put(name: str, value: Any) -> None:
        made.setdefault(name, []).append(value)

    of = Decimal if pa.types.is_decimal(sequence) else int
    for item in range(objects):
        reasons = random.choice(
            [[None], [None, "cast", SKIPPED], ["unreadable"], ["unreadable", SKIPPED], ["cast"]]
        )
        operations = random.choice([[o.value for o in Operation], ["update"], ["read", "insert"]])
        logs = random.choice([[None], ["a 1"], ["~ "], ["^ ", "~ "], ["~a 2", "~a 1"], ["a 1", "b 2"]])
        order = [*range(1, random.randrange(2, 9))]
        random.shuffle(order)
        for row in order:
            places = [row * 10, random.randrange(200), 0, LOAD_SEQUENCE, READ_SEQUENCE if of is Decimal else 1]
            for name, (_, _, value) in KEY.items():
                put(name, random.choice([None, value(random.randrange(-500, 500))]))
            put(names.OPERATION, random.choice([*operations, None]))
            put(names.SEQUENCE, of(random.choices(places, [9, 4, 1, 1, 1])[0]))
            put(names.OBJECT, item)
            put(names.ROW, row)
            put(names.TIME, random.choice([None, item * 500_000 + random.choice([row, 9]) * 1_000_000]))
            put(names.REASON, random.choice(reasons))
            put(names.DETAIL, random.choice([None, f"row {row}"]))
            put(names.UNSET, random.choice([None, None, None, ["i"]]))
            put(names.OLD, random.choice([None, None, {"t": "x"}]))
            put(FLAG, random.choice([True, False, None]))
            put(INITIAL, made[names.OPERATION][-1] == "read" and random.choice([False, True, True]))
            put(NO_PLACE, random.choice([False, False, None, True]))
            put(LOG, random.choice(logs))
            put(DATABASE, random.choice([None, "crm", "crm2"]))
    whole = dict.fromkeys((names.OBJECT, names.ROW, names.TIME), pa.int64()) | {names.SEQUENCE: sequence}
    types = {name: of[1] for name, of in KEY.items()} | whole
    types |= {
        names.UNSET: pa.list_(pa.string()),
        names.OLD: pa.struct({"t": pa.string()}),
        FLAG: pa.bool_(),
        NO_PLACE: pa.bool_(),
        INITIAL: pa.bool_(),
    }
    return pa.table({name: pa.array(cells, types.get(name, pa.string())) for name, cells in made.items()})


def restarts(random: Random) -> Sequence[LogRestart]:
    found = sorted((random.randrange(200), random.randrange(1, 6)) for _ in range(8))
    ends = [None, *(random.choice([None, order + 9]) for order, _ in found)]
    return [LogRestart(*place, 1000 * n, end) for n, (place, end) in enumerate(zip(found, ends, strict=False), 1)]


REACHED: Final = (
    LogReached(),
    LogReached(lowest=5, highest=80, snapshot=SnapshotPlace(160, OPEN_FOR + 20_000_000)),
    LogReached(
        lowest=5, highest=80, has_begun=True, time=2_000_000, logs=frozenset({LogName("a", "1"), LogName("a", "3")})
    ),
    LogReached(
        lowest=5,
        highest=2000,
        has_begun=True,
        time=99_000_000,
        ends={order: 50 + 50 * (order // 50) for order in range(200)},
        partitions={
            50: LogReached(lowest=5, highest=80, time=2_000_000, logs=frozenset({LogName("b", "2")})),
            100: LogReached(lowest=1, highest=300, time=30_000_000, logs=frozenset({LogName("a", "1")})),
        },
    ),
)

SEQUENCES: Final = {Sequences.TIMES: pa.int64(), Sequences.PLACES: pa.decimal128(38, 0)}


@pytest.mark.spark
@pytest.mark.parametrize("sequences", SEQUENCES)
def test_all_that_is_found_is_what_spark_finds(spark: SparkSession, sequences: Sequences) -> None:
    random = Random(str(sequences))
    table = dimension(sequences, 25)
    given = LocalFrame(rows_of(random, 200, SEQUENCES[sequences]), lambda: spark)
    lifts = restarts(random)
    local = with_ahead(lift_places(given, lifts), 95_000_000)
    frame = with_ahead(lift_places(in_spark(given), lifts), 95_000_000)
    assert isinstance(local, LocalFrame)
    assert isinstance(frame, DataFrame)
    place = [(names.OBJECT, "ascending"), (names.ROW, "ascending")]
    assert to_arrow(frame).sort_by(place).equals(local.rows.sort_by(place))

    found, expected = (survey(of, table, FLAG, AHEAD, NO_PLACE, INITIAL) for of in (local, frame))
    assert Counter(found) == Counter(expected)
    assert any(group.truncates for group in found)
    assert steps_back(local, found, table) == steps_back(frame, expected, table) != {}
    for reached in REACHED:
        steps = log_steps(local, found, reached)
        assert steps == log_steps(frame, expected, reached)
        assert all(any(of_item[n] for of_item in steps.values()) for n in range(2))
        assert {of_item.sure.is_read for of_item in steps.values() if of_item.sure is not None} == {False, True}
    assert find_refusals(local, found) == find_refusals(frame, expected) != {}


# Without Spark.


def frame_of(**columns: Sequence[Any]) -> LocalFrame:
    types = {names.OPERATION: pa.string(), names.REASON: pa.string(), names.DETAIL: pa.string()}
    named = {f"_lakeward_{name}": cells for name, cells in columns.items()}
    return LocalFrame(pa.table({n: pa.array(c, types.get(n, pa.int64())) for n, c in named.items()}), no_spark)


NO_KEY: Final = Dimension(name=TableName("s", "t"), schema=Schema(()), lateness=Within(5))


@pytest.mark.parametrize("reached", REACHED)
def test_objects_whose_rows_only_rise_have_no_step(reached: LogReached, monkeypatch: pytest.MonkeyPatch) -> None:
    random, rising = Random(5), 0
    for _ in range(200):
        rows = [*range(1, random.randint(2, 4))]
        places = sorted(random.choices([1, 90, 170, 2_100, 10**12, 2 * 10**12], k=len(rows)))
        words = [random.choice(["update", "update", "update", "read"]) for _ in rows]
        if random.random() < 0.3:
            random.shuffle(places)
        if random.random() < 0.1:
            random.shuffle(rows)
        frame = frame_of(
            object=[1] * len(rows),
            row=rows,
            sequence=places,
            operation=words,
            reason=[None] * len(rows),
            time=[random.choice([10**6, 10**9, 10**12]) for _ in rows],
        )
        groups = survey(frame, NO_KEY)
        found = log_steps(frame, groups, reached)
        with monkeypatch.context() as patch:
            patch.setattr(local_survey, "_only_rises", lambda *_: False)
            assert log_steps(frame, groups, reached) == found
        rising += local_survey._only_rises(frame.rows, 1, reached)
    assert rising > 10


def test_places_are_lifted_from_the_restart_on_but_for_rows_of_a_full_load() -> None:
    frame = frame_of(object=[1, 1, 1, 2], row=[1, 2, 3, 1], sequence=[7, 8, LOAD_SEQUENCE, READ_SEQUENCE])
    lifted = lift_places(frame, [LogRestart(1, 2, 100), LogRestart(2, 1, 500)])
    assert isinstance(lifted, LocalFrame)
    assert lifted.rows.column(names.SEQUENCE).to_pylist() == [7, 108, LOAD_SEQUENCE, 499]
    assert lift_places(frame, []) is frame


def test_a_row_further_behind_than_a_change_may_be_late_steps_back() -> None:
    frame = frame_of(
        object=[1, 1, 1, 2, 2],
        row=[3, 1, 2, 1, 2],
        sequence=[4, 10, 5, 10, 5],
        time=[None] * 5,
        operation=["update"] * 5,
        reason=[None] * 5,
    )
    assert steps_back(frame, survey(frame, NO_KEY), NO_KEY) == {1: 3}


def test_an_object_of_rejects_alone_tells_the_first_of_them() -> None:
    frame = frame_of(
        object=[1, 1, 1, 2, 2],
        row=[2, 1, 3, 1, 2],
        sequence=[0] * 5,
        time=[None] * 5,
        operation=[None] * 5,
        reason=["unreadable", SKIPPED, "unreadable", "unreadable", None],
        detail=["of row 2", "a blank line", "of row 3", "of row 1", None],
    )
    (refusal,) = [*find_refusals(frame, survey(frame, NO_KEY)).items()]
    assert (refusal[0], refusal[1].reason, refusal[1].rows) == (1, Reason.UNREADABLE, 2)
    assert (refusal[1].row, refusal[1].detail) == (2, "of row 2")


def test_columns_are_left_out_where_they_are_there() -> None:
    frame = frame_of(object=[1], row=[2])
    assert frame.drop(names.ROW, names.TIME).columns == [names.OBJECT]
