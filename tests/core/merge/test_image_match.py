"""Tables without a key whose rows are found by their images, where the laws of the kit do not look."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from memory_jobs import TableFeed, columns

from lakeward.core.dimension import Dimension, Match, TableName
from lakeward.core.errors import RepairError, SchemaConflict
from lakeward.core.events import UNSET, ChangeEvent, Operation, Position
from lakeward.core.merge.change_log import ChangeLogContents
from lakeward.core.merge.delivery import Delivery, DeliveryResult, Resolution
from lakeward.core.merge.image_match import NO_TRUNCATE, NOT_THERE, NOT_WHOLE, match
from lakeward.core.pipeline.preparation import prepare_next_batch
from lakeward.core.progress import Progress

SCHEMA = columns(a="double", b="struct<c:int,d:int>")
DIMENSION = Dimension(name=TableName("shop", "log"), schema=SCHEMA, match=Match.IMAGE)
INSERT, UPDATE, DELETE = Operation.INSERT, Operation.UPDATE, Operation.DELETE


def event(at: int, operation: Operation, before: Any = None, **cells: Any) -> ChangeEvent:
    return ChangeEvent(operation=operation, position=Position(1, at, 1, at), cells=cells, before=before)


def settled(*events: ChangeEvent) -> DeliveryResult:
    return match(DIMENSION, {}, ChangeLogContents(), Delivery(number=1, events=events))


def details(*events: ChangeEvent) -> list[str]:
    return [reject.detail for reject in settled(*events).rejects]


@pytest.mark.parametrize(
    ("stands", "image"),
    [
        ({"a": -0.0, "b": None}, {"a": 0.0, "b": None}),
        ({"a": float("nan"), "b": None}, {"a": float("nan"), "b": None}),
        ({"a": None, "b": {"c": 1, "d": None}}, {"a": None, "b": {"c": 1, "d": None}}),
        ({"a": 1.0, "b": None}, {"a": 1.0}),
    ],
    ids=["zeroes", "no numbers", "structs", "a column that the event has not"],
)
def test_an_image_is_equal_as_values_are_compared(stands: dict[str, Any], image: dict[str, Any]) -> None:
    found = settled(event(1, INSERT, **stands), event(2, DELETE, image))
    assert (found.rows, found.rejects) == ({}, [])
    assert (found.counts.superseded, found.counts.applied) == (1, 1)


def test_a_change_that_finds_no_row_is_rejected_with_the_reason() -> None:
    part = {"a": 1.0, "b": {"c": 1, "d": UNSET}}
    assert details(
        event(1, DELETE, {"a": 1.0, "b": None}),
        event(2, UPDATE, {"a": 2.0, "b": None}, a=3.0, b=None),
        event(3, DELETE, {"a": 3.0, "b": None}),
        event(4, UPDATE, None, a=1.0, b=None),
        event(5, UPDATE, part, a=1.0, b=None),
        event(6, Operation.TRUNCATE),
    ) == [NOT_THERE, NOT_THERE, NOT_THERE, NOT_WHOLE, NOT_WHOLE, NO_TRUNCATE]


def test_an_update_without_a_complete_row_removes_none() -> None:
    image = {"a": 1.0, "b": None}
    assert details(event(1, INSERT, **image), event(2, UPDATE, image, a=UNSET, b=None)) == [NOT_WHOLE]


def test_a_repaired_row_cannot_remove_another_one() -> None:
    repaired = event(1, DELETE, a=1.0, b=None)
    with pytest.raises(RepairError, match="is an update or a delete"):
        match(
            DIMENSION,
            {},
            ChangeLogContents(),
            Delivery(number=1, resolutions=[Resolution(repaired.position, repaired)]),
        )


def added(place: int) -> ChangeEvent:
    return ChangeEvent(operation=INSERT, position=Position(1, place, place, 1), cells={"a": 1.0})


BARE = replace(DIMENSION, match=Match.KEY)


@pytest.mark.parametrize(
    ("was", "is_", "what", "found", "todo"),
    [
        (
            BARE,
            DIMENSION,
            "that is append-only cannot become one whose",
            "may have rows that are gone",
            "Remove `match`",
        ),
        (DIMENSION, BARE, "images cannot become append-only", "the next ones would find none", 'Set `match = "im'),
    ],
    ids=["on", "off"],
)
def test_a_table_with_data_keeps_how_changes_find_rows(
    was: Dimension, is_: Dimension, what: str, found: str, todo: str
) -> None:
    """It is not for the next file to find out: where nothing waits, it is refused as well."""
    feed = TableFeed(was)
    feed.deliver(1, added(1))
    assert Progress.from_json(feed.progress.to_json()) == feed.progress
    for waiting in ([], [added(2)]):
        if waiting:
            feed.source.put(was.name, 2, waiting)
        with pytest.raises(SchemaConflict, match=what) as refused:
            prepare_next_batch(replace(feed.job, dimension=is_))
        assert found in str(refused.value.found)
        assert todo in str(refused.value.todo)
        assert "docs/how-to/reload.md#dropping-a-table" in str(refused.value.todo)
    feed.deliver(3, added(3))
    assert feed.progress.batch == 2
