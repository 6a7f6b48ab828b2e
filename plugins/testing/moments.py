"""Moments: the visible state of a table after a batch, and the difference of two of them in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from lakeward.core.events import ChangeEvent, Key, Position
from lakeward.core.progress import Progress
from lakeward.plugins.testing.scripts import Item, Rows

NAN: Final = math.nan
"""The one NaN of the kit. Dicts and tuples compare it as equal, because it is the same object."""

_SHOWN: Final = 3
"""The greatest number of differing keys that are shown."""


@dataclass(frozen=True)
class Moment:
    """The visible state of a table after a batch.

    `quarantine` has for each entry its reason, the number of events that wait behind it, the keys that it holds,
    and whether it is repaired. `incomplete` are the positions of events that wait for the rest of their row.
    """

    progress: Progress
    rows: Rows
    quarantine: Mapping[Position, tuple[str, int, frozenset[str], bool]]
    incomplete: frozenset[Position]

    @property
    def promised(self) -> tuple[object, ...]:
        """The part of the state that every table must show.

        Whether a repeated event counts as duplicate or as stale depends on what is still remembered. Their sum does
        not, so they are added up.
        """
        return self.rows, self.quarantine, self.incomplete, _merged(self.progress)


def with_one_nan(rows: Rows) -> Rows:
    """Return rows in which every NaN is replaced by `NAN`."""
    return {
        key: ({name: _one(cell) for name, cell in cells.items()}, place) for key, (cells, place) in rows.items()
    }


def _one(cell: object) -> object:
    return NAN if isinstance(cell, float) and math.isnan(cell) else cell


def difference(actual: Moment, expected: Moment, delivered: Sequence[Item]) -> str:
    """Return the difference of two moments in words, with the delivered events of the keys that differ."""
    lines = [f"after batch {actual.progress.batch} the table is not what it should be:"]
    lines += _of_rows(actual.rows, expected.rows, delivered)
    lines += _of_progress(_merged(actual.progress), _merged(expected.progress))
    for name in ("quarantine", "incomplete"):
        one, other = getattr(actual, name), getattr(expected, name)
        if one != other:
            lines.append(f"  {name}: found {one}, expected {other}")
    return "\n".join(lines)


def rows_differ(actual: Rows, expected: Rows, delivered: Sequence[Item]) -> str:
    """Return the difference of rows from the expected ones in words, with the delivered events of their keys."""
    return "\n".join(["the rows are not those of the feed:", *_of_rows(actual, expected, delivered)])


def _of_rows(actual: Rows, expected: Rows, delivered: Sequence[Item]) -> Iterator[str]:
    keys = [key for key in {**actual, **expected} if actual.get(key) != expected.get(key)]
    for key in keys[:_SHOWN]:
        yield f"  row {key}: found {_row(actual, key)}, expected {_row(expected, key)}; delivered of it:"
        yield from (f"    {item_in_words(item)}" for item in delivered if key in item.keys or not item.keys)
    if len(keys) > _SHOWN:
        yield f"  and {len(keys) - _SHOWN} rows more"


def _row(rows: Rows, key: Key) -> str:
    if key not in rows:
        return "none"
    cells, position = rows[key]
    return f"{dict(cells)} of {tuple(position)}"


def item_in_words(item: Item) -> str:
    """Return an event or a reject in words: its position and what it does."""
    if not isinstance(item, ChangeEvent):
        return f"{tuple(item.position)} cannot be read: {item.reason.value}"
    moved = "" if item.old_key is None else f" from {item.old_key}"
    return f"{tuple(item.position)} {item.operation.value}{moved} {dict(item.cells)}, at {item.time}"


def _of_progress(actual: Progress, expected: Progress) -> Iterator[str]:
    one, other = _flat(asdict(actual)), _flat(asdict(expected))
    for name, value in one.items():
        if value != other.get(name):
            yield f"  progress.{name}: found {value}, expected {other.get(name)}"


def _flat(values: Mapping[str, Any], within: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in values.items():
        flat |= _flat(value, f"{within}{name}.") if isinstance(value, dict) else {within + name: value}
    return flat


def _merged(progress: Progress) -> Progress:
    counts = [replace(c, stale=c.stale + c.duplicates, duplicates=0) for c in (progress.counts, progress.totals)]
    return replace(progress, counts=counts[0], totals=counts[1])
