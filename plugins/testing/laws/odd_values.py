"""Odd values: texts and numbers that an engine, a file or a converter changes, drops or confuses.

All were met in the field: identifiers above 2^53 that went through a double, texts cut at 255 characters, keys
that a collation holds equal, the empty text read as NULL, rows cut in two by U+2028.
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
from lakeward.plugins.testing.feeds import BEGIN, DIMENSION, Feed, contents
from lakeward.plugins.testing.scripts import NAME, TOLERANT, Script

TEXTS: Final[Sequence[str]] = (
    *("", " ", "a", "A", "a ", " a", "\u00e9", "e\u0301", "\u00df", "ss", "\U0001d11e", "\ufeffa"),
    *("'", '"', '""', "a,b;c|d", "\\", "\\n", "\\N", "a\tb", "a\nb", "a\r\nb", "a\rb", "a\u2028b", "a\u0085b"),
    *("0", "00", "-0", "1e5", "1.50", "true", "null", "None", "NaN", "2024-02-30", "{}", "[1]", "%20", "a/b", ".."),
    *("x" * 300, "x" * 300 + "y", "x" * 70_000),
)
"""Texts. No two are equal, and none is NULL."""

NUMBERS: Final[Sequence[int]] = (
    *(0, -1, 2**31, -(2**31) - 1, 2**53 + 1, -(2**53) - 1, 2**63 - 2, 2**63 - 1, 1 - 2**63, -(2**63)),
)
"""Numbers. Each fits a bigint, and no two are equal."""

COLUMNS: Final = Schema(
    (*(Column(name, parse_type("string")) for name in ("t", "u", "a")), Column("n", parse_type("bigint")))
)
KEY: Final = ("t", "u")
KEYS: Final[Sequence[tuple[str, str]]] = (
    *((text, "") for text in TEXTS if len(text) < 1000),
    *(("a", "b,c"), ("a,b", "c"), ("1", "23"), ("12", "3"), ('a","b', "c"), ("a", 'b","c')),
)
"""Keys of two texts. Some give the same text if they are joined without escaping."""


def a_value_is_read_back_unchanged(trial: Trial) -> None:
    """In keys and other cells, in rows, change log and quarantine. No two values are confused."""
    trial.play(moving(COLUMNS, KEY, KEYS, _change))


def moving(
    columns: Schema,
    key: Sequence[str],
    keys: Sequence[Key],
    change: Callable[[Operation, int, int, int], ChangeEvent],
) -> Script:
    """Return a feed with an insert, a change, events that wait behind a bad row, and a late event of each key.

    `change` makes an event from the operation, the source time, the index of the key and the object number.
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
    """Return a change of a key. Its cells depend on the key and on `at`, and go through both lists."""
    other = row + at * 7
    texts: list[Cell] = [None, *TEXTS]
    numbers: list[Cell] = [None, *NUMBERS]
    cells = dict(zip(KEY, KEYS[row], strict=True)) | {
        "a": texts[other % len(texts)],
        "n": numbers[other % len(numbers)],
    }
    place = Position(1, at, arrives, row + 1)
    return ChangeEvent(operation=operation, position=place, key=KEYS[row], cells=cells, time=at)


def a_cell_is_read_as_it_was_written(feed: Feed) -> None:
    """Every text and number is read unchanged, each in a row of its own. NULL and the empty text differ."""
    operation = next(one for one in feed.operations if one is not Operation.DELETE)
    items = list(_rows(operation, [None, *filter(feed.holds, TEXTS)]))
    feed.put(DIMENSION, 1, items)
    events = [event for batch in feed.batches() for event in batch.by_arrival]
    assert len(events) == len(items), f"{len(items)} rows were written, and {len(events)} are read"
    changed = [
        (read, written) for read, written in zip(contents(events), contents(items), strict=True) if read != written
    ]
    assert not changed, f"read is {changed[0][0]}, and written was {changed[0][1]}"


def _rows(operation: Operation, cells: Sequence[Cell]) -> Iterator[ChangeEvent]:
    """Yield rows whose keys are first the odd numbers, then others. Missing cells are NULL."""
    numbers = [*NUMBERS, *range(1, len(cells) + 1 - len(NUMBERS))]
    for row, (number, cell) in enumerate(zip_longest(numbers, cells), 1):
        time = BEGIN + 1_000_000 * row
        place = Position(1, time, 1, row)
        sent = {"id": number, "a": cell}
        yield ChangeEvent(operation=operation, position=place, key=(number,), cells=sent, time=time)
