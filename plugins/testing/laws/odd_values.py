"""Odd values: texts and numbers that an engine, a file or a converter bends, drops or takes for each other.

What is in the lists was met in the field: identifiers beyond 2^53 that went through a double, texts cut at
255 characters, keys that a collation takes for one, the empty text taken for NULL, rows cut in two by U+2028.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import zip_longest
from typing import Final

from lakeward.core.dimension import Dimension, Unbounded
from lakeward.core.events import Cell, ChangeEvent, Key, Operation, Position
from lakeward.core.merge.change_log import Reason, Reject
from lakeward.core.schema import Column, Schema, parse_type
from lakeward.plugins.testing.bench import Trial
from lakeward.plugins.testing.feeds import BEGIN, DIMENSION, Feed, told
from lakeward.plugins.testing.scripts import NAME, TOLERANT, Script

TEXTS: Final[Sequence[str]] = (
    *("", " ", "a", "A", "a ", " a", "\u00e9", "e\u0301", "\u00df", "ss", "\U0001d11e", "\ufeffa"),
    *("'", '"', '""', "a,b;c|d", "\\", "\\n", "\\N", "a\tb", "a\nb", "a\r\nb", "a\rb", "a\u2028b", "a\u0085b"),
    *("0", "00", "-0", "1e5", "1.50", "true", "null", "None", "NaN", "2024-02-30", "{}", "[1]", "%20", "a/b", ".."),
    *("x" * 300, "x" * 300 + "y", "x" * 70_000),
)
"""No two of them are equal, and none is NULL."""

NUMBERS: Final[Sequence[int]] = (
    *(0, -1, 2**31, -(2**31) - 1, 2**53 + 1, -(2**53) - 1, 2**63 - 2, 2**63 - 1, 1 - 2**63, -(2**63)),
)
"""Each fits a bigint, and no two of them are equal."""

COLUMNS: Final = Schema(
    (*(Column(name, parse_type("string")) for name in ("t", "u", "a")), Column("n", parse_type("bigint")))
)
KEY: Final = ("t", "u")
KEYS: Final[Sequence[tuple[str, str]]] = (
    *((text, "") for text in TEXTS if len(text) < 1000),
    *(("a", "b,c"), ("a,b", "c"), ("1", "23"), ("12", "3"), ('a","b', "c"), ("a", 'b","c')),
)
"""Keys of two texts, some of which are one where they are put together without care."""


def a_value_is_read_back_as_it_came(trial: Trial) -> None:
    """In keys and in other cells, in rows, in memory and in quarantine; no two of them are taken for one."""
    trial.play(moving(COLUMNS, KEY, KEYS, _change))


def moving(
    columns: Schema,
    key: Sequence[str],
    keys: Sequence[Key],
    change: Callable[[Operation, int, int, int], ChangeEvent],
) -> Script:
    """Return a feed of each of the keys: an insert, a change, what waits behind a bad row, and what comes late.

    `change` makes an event of the operation, the time, which of the keys, and the object with which it arrives.
    """
    rows = range(len(keys))
    inserts = [change(Operation.INSERT, 1, row, 1) for row in rows]
    changes = [change(Operation.UPDATE if row % 5 else Operation.DELETE, 3, row, 3) for row in rows]
    bad = [Reject(Position(1, 4, 4, row), Reason.CAST, (keys[row],), time=4) for row in rows[1::5]]
    waiting = [change(Operation.UPDATE, 5, row, 5) for row in rows[1::5]]
    late = [change(Operation.UPDATE, 2, row, 6) for row in rows]
    dimension = Dimension(name=NAME, schema=columns, key=tuple(key), lateness=Unbounded(), tolerance=TOLERANT)
    return Script(dimension, [inserts, changes, [*bad, *waiting], late], [*inserts, *changes, *waiting, *late])


def _change(operation: Operation, at: int, row: int, arrives: int) -> ChangeEvent:
    """Return a change of a key; what its row says moves on through the lists `at` each time."""
    other = row + at * 7
    texts: list[Cell] = [None, *TEXTS]
    numbers: list[Cell] = [None, *NUMBERS]
    cells = dict(zip(KEY, KEYS[row], strict=True)) | {
        "a": texts[other % len(texts)],
        "n": numbers[other % len(numbers)],
    }
    place = Position(1, at, arrives, row + 1)
    return ChangeEvent(operation=operation, position=place, key=KEYS[row], cells=cells, time=at)


def a_cell_comes_as_it_was_written(feed: Feed) -> None:
    """Every text and every number, each in a row of its own, and NULL apart from the empty text."""
    operation = next(one for one in feed.operations if one is not Operation.DELETE)
    items = list(_rows(operation, [None, *filter(feed.holds, TEXTS)]))
    feed.put(DIMENSION, 1, items)
    found = [event for batch in feed.batches() for event in batch.by_arrival]
    assert len(found) == len(items), f"{len(items)} rows were written, and {len(found)} are read"
    bent = [(came, was) for came, was in zip(told(found), told(items), strict=True) if came != was]
    assert not bent, f"read is {bent[0][0]}, and written was {bent[0][1]}"


def _rows(operation: Operation, cells: Sequence[Cell]) -> Iterator[ChangeEvent]:
    """Yield rows with keys of odd numbers first, then of others; where there are fewer cells, with NULL."""
    numbers = [*NUMBERS, *range(1, len(cells) + 1 - len(NUMBERS))]
    for row, (number, cell) in enumerate(zip_longest(numbers, cells), 1):
        time = BEGIN + 1_000_000 * row
        place = Position(1, time, 1, row)
        sent = {"id": number, "a": cell}
        yield ChangeEvent(operation=operation, position=place, key=(number,), cells=sent, time=time)
