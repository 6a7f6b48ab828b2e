"""Rows that are deleted and stay: what settings a table can have for it, and what it says of itself."""

from __future__ import annotations

from dataclasses import replace

import pytest
from memory_jobs import INSERT, NAME, TableFeed, event, item

from lakeward.core.dimension import Deletes, Dimension
from lakeward.core.errors import ConfigError, SchemaConflict
from lakeward.core.events import ChangeEvent, Operation
from lakeward.core.history.options import History
from lakeward.core.pipeline.apply import apply_changes

HARD = item()
SOFT = replace(HARD, deletes=Deletes.SOFT)


def change(place: int, operation: Operation = INSERT) -> ChangeEvent:
    return event(operation, place, a=place)


@pytest.mark.parametrize(
    ("was", "is_", "what", "found"),
    [
        (HARD, SOFT, "a table whose deletes are hard cannot have soft ones", "deleted before are not known"),
        (SOFT, HARD, "a table whose deletes are soft cannot have hard ones", "rows that were deleted are in it"),
        (SOFT, replace(HARD, history=History()), "a mirror cannot become a history", "it has the newest of each"),
    ],
)
def test_a_table_with_data_keeps_its_kind_of_deletes(was: Dimension, is_: Dimension, what: str, found: str) -> None:
    feed = TableFeed(was)
    feed.deliver(1, change(1))
    feed.source.put(NAME, 2, [change(2)])
    with pytest.raises(SchemaConflict, match=what) as refused:
        apply_changes(replace(feed.job, dimension=is_))
    assert found in str(refused.value.found)
    feed.deliver(3, change(3))
    assert feed.progress.batch == 2


@pytest.mark.parametrize(
    ("dimension", "what"),
    [
        (replace(SOFT, key=()), "a table without a key has no deletes that could be soft"),
        (replace(SOFT, history=History()), "its history cannot be kept like this"),
    ],
)
def test_soft_deletes_are_refused_where_they_are_impossible(dimension: Dimension, what: str) -> None:
    feed = TableFeed(dimension)
    with pytest.raises(ConfigError, match=what):
        feed.deliver(1, change(1))
    assert feed.progress.batch == 0
