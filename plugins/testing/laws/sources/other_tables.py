"""The laws of a source for rows of other tables in an object: they are counted and named, and not read."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from lakeward.core.errors import LakewardError
from lakeward.plugins.testing.contract import Closed
from lakeward.plugins.testing.feeds import DIMENSION, OTHER, Feed, Law, Read, contents
from lakeward.plugins.testing.scripts import Item

_NAME: Final = str(OTHER.name)


def rows_of_other_tables_are_counted_and_not_read(feed: Feed) -> None:
    """Rows of other tables count as skipped, by the name of their table. Their positions and times do not count."""
    _put(feed, 1, feed.items(1), {_NAME: 2})
    batch = feed.read()
    assert contents(batch.by_arrival) == contents(feed.items(1))
    assert batch.facts.skipped == 2, f"2 rows are skipped; the facts have {batch.facts.skipped}"
    others = batch.facts.others
    assert others is not None, "rows of other tables are not reported"
    assert (others.messages, others.names) == (2, ((_NAME, 2),)), f"2 rows are of {_NAME}; reported are {others}"
    places = [item.position for item in batch.rows]
    assert (batch.facts.least, batch.facts.greatest) == (min(places), max(places)), "places of other tables count"
    assert batch.facts.time == max(item.time or 0 for item in batch.rows), "times of other tables count"


def an_object_of_other_tables_alone_is_reported(feed: Feed) -> None:
    """An object with rows of other tables alone stops its table, or its rows are reported by their table."""
    _put(feed, 1, [], {_NAME: 3})
    batch, stop = _read(feed)
    if batch is None:
        assert _NAME in stop, f"the error does not name {_NAME}: {stop}"
        return
    assert not batch.rows, f"read as rows of {DIMENSION.name}: {batch.rows}"
    assert batch.facts.others is not None, "rows of other tables are not reported"
    assert dict(batch.facts.others.names) == {_NAME: 3}


def _read(feed: Feed) -> tuple[Read | None, str]:
    """Return the batch, or None and the error that stops the table."""
    try:
        return feed.read(), ""
    except LakewardError as error:
        return None, str(error)


def _put(feed: Feed, place: int, items: Sequence[Item], others: Mapping[str, int]) -> None:
    """Put an object with rows of other tables. Raises Closed if objects have rows of one table only."""
    if feed.put_mixed is None:
        raise Closed("rows of several tables in an object")
    feed.put_mixed(DIMENSION, place, items, others)


LAWS: Final[tuple[Law, ...]] = (
    rows_of_other_tables_are_counted_and_not_read,
    an_object_of_other_tables_alone_is_reported,
)
