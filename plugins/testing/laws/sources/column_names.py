"""The laws of a source for column names: a cell is read under the name in its object, or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from lakeward.core.errors import LakewardError
from lakeward.core.events import ChangeEvent
from lakeward.plugins.testing.contract import Closed
from lakeward.plugins.testing.feeds import DIMENSION, Feed, Law, contents


def columns_in_another_order_are_read_by_name(feed: Feed) -> None:
    """Each object names its columns, in any order."""
    _put(feed, 1, {"id": "id", "a": "a"})
    _put(feed, 3, {"a": "a", "id": "id"})
    rows = [words for batch in feed.batches() for words in contents(batch.by_arrival)]
    assert rows == contents([*feed.items(1), *feed.items(3)])


def a_cell_of_an_unknown_column_is_read_under_no_other_name(feed: Feed) -> None:
    """For an unknown column the table may follow or stop, but no cell is read by its place in the row."""
    feed.put(DIMENSION, 1, feed.items(1))
    for place, names in enumerate(({"other": "a", "id": "id"}, {"id": "id", "other": "a"}), 3):
        _put(feed, place, names)
    written = {item.cells["a"] for place in (3, 4) for item in feed.items(place) if isinstance(item, ChangeEvent)}
    misread = [
        cells for cells in _cells(feed) if written.intersection(str(cells.get(name)) for name in ("id", "a"))
    ]
    assert not misread, f"written under `other` were {sorted(map(str, written))}; read is {misread}"


def _put(feed: Feed, place: int, names: Mapping[str, str]) -> None:
    """Put an object with columns of these names, in this order. Raises Closed if objects have no column names."""
    if feed.put_named is None:
        raise Closed("names of columns in objects")
    feed.put_named(DIMENSION, place, feed.items(place), names)


def _cells(feed: Feed) -> Sequence[Mapping[str, object]]:
    """Return the cells of all rows up to the object at which the source stops, if it does."""
    cells: list[Mapping[str, object]] = []
    try:
        for batch in feed.batches():
            cells += [item.cells for item in batch.rows if isinstance(item, ChangeEvent)]
    except LakewardError:
        pass
    return cells


LAWS: Final[tuple[Law, ...]] = (
    columns_in_another_order_are_read_by_name,
    a_cell_of_an_unknown_column_is_read_under_no_other_name,
)
