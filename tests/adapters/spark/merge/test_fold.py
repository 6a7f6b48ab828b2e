"""Folding in Spark is folding in the core: random databases, one chain each, in a few jobs."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from iceberg_lake import event_table
from merge_plans import make_plan
from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.spark.merge.fold.batch_fold import TableBefore, fold
from lakeward.adapters.spark.merge.resolution import events_of, stored_column
from lakeward.adapters.spark.session.compatibility import from_arrow
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import ORDERED, Dimension
from lakeward.core.events import ChangeEvent, Position
from lakeward.core.merge.facts import PARTIAL, BatchFacts
from lakeward.core.merge.fold import apply
from lakeward.core.plan import MergePlan
from lakeward.plugins.testing.scripts import NAME, PACKED
from lakeward.plugins.testing.simulated_database import Features, feed

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled")]

DIMENSION = Dimension(name=NAME, schema=PACKED, key=("h", "id"), lateness=ORDERED)


def plan() -> MergePlan:
    facts = BatchFacts(schema=PACKED, may_need=PARTIAL, needs=PARTIAL)
    return make_plan(DIMENSION, batch=1, facts=facts, creates=True, folds=True, folds_remembered=True)


def history(number: int, random: Random) -> list[ChangeEvent]:
    """What happens to a database: any of it may be lost or come again, and some transactions have no name."""
    events = list(feed(random, Features(unset=True, moves=True, transactions=20)).events)
    again = {event.transaction for event in events if random.random() < 0.1}
    copies = [event for event in events if event.transaction in again]
    events += [replace(one, position=one.position._replace(object=one.position.object + 500)) for one in copies]
    lost, unnamed = random.choice([0.0, 0.2]), random.random() < 0.3
    return [
        replace(
            event,
            key=(number, *event.key),
            old_key=None if event.old_key is None else (number, *event.old_key),
            cells={"h": number, **event.cells},
            transaction=None if unnamed else (number, event.transaction),
            position=event.position._replace(object=1000 * number + event.position.object),
        )
        for event in events
        if random.random() >= lost
    ]


def no_rows(keys: DataFrame) -> DataFrame:
    return keys.where("false").selectExpr("h", "id", "id AS a", "id AS b", *_PLACES)


_PLACES = [f"bigint(NULL) AS {stored_column(name)}" for name in names.POSITION]


@settings(
    max_examples=1,
    deadline=None,
    phases=[Phase.explicit, Phase.generate],
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(seed=st.integers(0, 2**32))
def test_spark_folds_as_the_core_does(spark: SparkSession, seed: int) -> None:
    random = Random(seed)
    events = [event for number in range(300) for event in history(number, random)]
    expected = apply(DIMENSION, {}, events)
    frame = events_of(from_arrow(spark, event_table(DIMENSION, events, in_part=True)))
    chains = fold(plan(), frame, TableBefore(remembered=None, bases=None, rows=no_rows, by_rows=True))
    rows = {
        (row["h"], row["id"]): (row["a"], row["b"], Position(1, *[row[name] for name in names.POSITION[1:]]))
        for row in chains.rows().collect()
    }
    assert rows == {
        key: (row.cells["a"], row.cells["b"], row.position) for key, row in expected.rows.items() if not row.deleted
    }
    places = frame.select("_lakeward_id", *names.POSITION[1:]).collect()
    place_of = {row[0]: Position(1, *row[1:]) for row in places}
    judged = chains.verdicts().collect()
    waiting = {event.position for event in events if expected.is_waiting(event)}
    assert {place_of[row["id"]] for row in judged if row["verdict"] == "applied"} == expected.used - waiting
    assert {place_of[row["id"]] for row in judged if row["verdict"] == "incomplete"} == waiting
    for note, wanted in (
        ("undecided", expected.undecided),
        ("existing", expected.insert_on_existing),
        ("missing", expected.update_on_missing),
        ("nulled", expected.unset_as_null),
    ):
        assert {place_of[row["id"]] for row in judged if row[note]} == wanted, note
    assert waiting
    assert expected.incomplete - waiting
    assert expected.undecided
