"""Moments: what can be seen of a table after a batch, and in words in what two of them differ."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Final

from lakeward.core.events import ChangeEvent, Key, Position
from lakeward.core.progress import Progress
from lakeward.plugins.testing.scripts import Item, Rows

NAN: Final = math.nan
"""The one NaN of the kit: equal to itself where it is the same object, as within dicts and tuples."""

_SHOWN: Final = 3
"""How many keys are shown of those in which two tables differ."""


@dataclass(frozen=True)
class Moment:
    """What can be seen of a table after a batch: its progress, its rows, and what waits, in quarantine or not.

    Of each entry of the quarantine it is its reason, how many events wait behind it, the keys that
    it holds, and whether it is mended.
    """

    progress: Progress
    rows: Rows
    quarantine: Mapping[Position, tuple[str, int, frozenset[str], bool]]
    incomplete: frozenset[Position]

    @property
    def promised(self) -> tuple[object, ...]:
        """All that is promised, to be compared.

        Whether a copy of an overtaken event is known for a copy (duplicate) or only for
        old (stale) depends on what is still remembered; their sum does not.
        """
        return self.rows, self.quarantine, self.incomplete, _merged(self.progress)


def with_one_nan(rows: Rows) -> Rows:
    """Return rows in which every NaN is the kit's."""
    return {
        key: ({name: _one(cell) for name, cell in cells.items()}, place) for key, (cells, place) in rows.items()
    }


def _one(cell: object) -> object:
    return NAN if isinstance(cell, float) and math.isnan(cell) else cell


def difference(found: Moment, expected: Moment, delivered: Sequence[Item]) -> str:
    """Say in what a table differs from what it should be, and what was delivered of the keys in which it does."""
    lines = [f"after batch {found.progress.batch} the table is not what it should be:"]
    lines += _of_rows(found.rows, expected.rows, delivered)
    lines += _of_progress(_merged(found.progress), _merged(expected.progress))
    for name in ("quarantine", "incomplete"):
        one, other = getattr(found, name), getattr(expected, name)
        if one != other:
            lines.append(f"  {name}: found {one}, expected {other}")
    return "\n".join(lines)


def rows_differ(found: Rows, expected: Rows, delivered: Sequence[Item]) -> str:
    """Say in what rows differ from the truth, and what was delivered of their keys."""
    return "\n".join(["the rows are not those of the feed:", *_of_rows(found, expected, delivered)])


def _of_rows(found: Rows, expected: Rows, delivered: Sequence[Item]) -> Iterator[str]:
    keys = [key for key in {**found, **expected} if found.get(key) != expected.get(key)]
    for key in keys[:_SHOWN]:
        yield f"  row {key}: found {_row(found, key)}, expected {_row(expected, key)}; delivered of it:"
        yield from (f"    {item_in_words(item)}" for item in delivered if key in item.keys or not item.keys)
    if len(keys) > _SHOWN:
        yield f"  and {len(keys) - _SHOWN} rows more"


def _row(rows: Rows, key: Key) -> str:
    if key not in rows:
        return "none"
    cells, position = rows[key]
    return f"{dict(cells)} of {tuple(position)}"


def item_in_words(item: Item) -> str:
    """Say of an event or a reject where it stands, and what it does."""
    if not isinstance(item, ChangeEvent):
        return f"{tuple(item.position)} cannot be read: {item.reason.value}"
    moved = "" if item.old_key is None else f" from {item.old_key}"
    return f"{tuple(item.position)} {item.operation.value}{moved} {dict(item.cells)}, at {item.time}"


def _of_progress(found: Progress, expected: Progress) -> Iterator[str]:
    one, other = _flat(asdict(found)), _flat(asdict(expected))
    for name, value in one.items():
        if value != other.get(name):
            yield f"  progress.{name}: found {value}, expected {other.get(name)}"


def _flat(values: Mapping[str, Any], within: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        found |= _flat(value, f"{within}{name}.") if isinstance(value, dict) else {within + name: value}
    return found


def _merged(progress: Progress) -> Progress:
    counts = [replace(c, stale=c.stale + c.duplicates, duplicates=0) for c in (progress.counts, progress.totals)]
    return replace(progress, counts=counts[0], totals=counts[1])
