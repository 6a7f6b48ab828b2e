"""Objects of equal content are reported where nothing else tells a change from its duplicate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import Operation
from lakeward.core.ledger.duplicate_objects import DuplicateObject, find_duplicate_object
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.merge.facts import BatchFacts, ObjectFacts
from lakeward.core.plan import MergePlan, plan
from lakeward.core.progress import Progress
from lakeward.core.reporting.alarms import alarms
from lakeward.plugins.testing.simulated_database import SCHEMA

DIMENSION = Dimension(name=TableName("shop", "item"), schema=SCHEMA, key=())


def item(name: str, etag: str | None, size: int = 9) -> SourceObject:
    return SourceObject(name, int(name), size, 0, etag)


def planned(*items: SourceObject, dimension: Dimension = DIMENSION, rows: int = 1) -> MergePlan:
    objects = tuple(ObjectFacts(one, rows) for one in items)
    facts = BatchFacts(schema=SCHEMA, objects=objects, operations={Operation.INSERT: len(items)})
    progress = Progress(sequences=dimension.sequences)
    return plan(dimension, facts, progress, stored=SCHEMA, capabilities=frozenset())


@pytest.mark.parametrize("seen", [[], [item("1", "a")]], ids=["in one batch", "in an earlier one"])
def test_an_object_with_the_content_of_another_is_reported(seen: Sequence[SourceObject]) -> None:
    new = [item("2", "a")] if seen else [item("1", "a"), item("2", "a")]
    assert find_duplicate_object(planned(*new), seen) == DuplicateObject("2", "1")
    [alarm] = alarms("shop.item", None, [], [DuplicateObject("2", "1"), DuplicateObject("2", "1")], 0)
    assert (alarm.code, alarm.found) == ("COPY-001", "2 holds what 1 does")


@pytest.mark.parametrize(
    "other",
    [item("1", "b"), item("1", "a", size=8), item("1", None), item("2", "a")],
    ids=["another content", "another size", "content not known", "the object itself"],
)
def test_objects_without_an_etag_are_not_reported(other: SourceObject) -> None:
    assert find_duplicate_object(planned(item("2", "a")), [other]) is None


def test_empty_objects_are_not_reported() -> None:
    assert find_duplicate_object(planned(item("2", "a", size=0)), [item("1", "a", size=0)]) is None
    assert find_duplicate_object(planned(item("2", "a"), rows=0), [item("1", "a")]) is None, "nothing but a header"


def test_tables_with_a_key_report_no_duplicate_objects() -> None:
    with_key = replace(DIMENSION, key=("id",))
    assert find_duplicate_object(planned(item("2", "a"), dimension=with_key), [item("1", "a")]) is None
