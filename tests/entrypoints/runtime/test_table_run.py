"""What a run says of the rows of its batches."""

from __future__ import annotations

from typing import Any

import pytest

from lakeward.core.dimension import TableName
from lakeward.core.events import LOAD_SEQUENCE, Operation, Position
from lakeward.core.merge.counts import Counts
from lakeward.core.merge.facts import BatchFacts
from lakeward.core.schema import Schema
from lakeward.entrypoints.runtime.table_run import TableRun, caution_words, row_cautions

LOAD, CHANGE = Position(1, LOAD_SEQUENCE, 1, 1), Position(1, 7, 2, 1)
READ, UPDATE = Operation.READ, Operation.UPDATE


def batch(operations: dict[Operation, int], least: Position | None, greatest: Position | None, **more: Any) -> Any:
    return BatchFacts(schema=Schema(()), operations=operations, least=least, greatest=greatest, **more)


def test_rows_of_a_full_load_whose_key_stands_again_are_said_with_their_number() -> None:
    (said,) = caution_words(row_cautions(batch({READ: 5, UPDATE: 0}, LOAD, LOAD), Counts(read=5, superseded=2)))
    assert (said.startswith("A key occurs more than once"), said.endswith("Rows: 2.")) == (True, True)


@pytest.mark.parametrize(
    ("facts", "superseded"),
    [
        (batch({READ: 5}, LOAD, LOAD), 0),
        (batch({READ: 5, UPDATE: 1}, LOAD, CHANGE), 2),
        (batch({READ: 5}, CHANGE, CHANGE), 2),
        (batch({}, None, None), 2),
    ],
)
def test_nothing_is_said_of_other_batches(facts: BatchFacts, superseded: int) -> None:
    assert row_cautions(facts, Counts(superseded=superseded)) == {}


def test_rows_that_lose_what_a_column_had_are_said_with_their_number() -> None:
    """Updates keep it; any other row of a file that lacks the column has NULL there."""
    facts = batch({READ: 3, UPDATE: 2}, CHANGE, CHANGE)
    assert caution_words(row_cautions(facts, Counts(), ("price", "a.b"))) == [
        "The files lack price, a.b: rows of loads and snapshots have NULL there, whatever they had before. Rows: 3."
    ]
    assert row_cautions(batch({UPDATE: 2}, CHANGE, CHANGE), Counts(), ("price",)) == {}


def test_what_a_source_says_of_rows_is_passed_on() -> None:
    facts = batch({UPDATE: 1}, CHANGE, CHANGE, cautions={"A row is odd.": 1200})
    assert caution_words(row_cautions(facts, Counts())) == ["A row is odd. Rows: 1,200."]


NOT_READ = "not read, since the names are not those of files of the table"


@pytest.mark.parametrize(
    ("names", "words"),
    [
        ([], []),
        (["a.txt"], [f"1 other file is {NOT_READ}: a.txt"]),
        (["a", "b", "c", "d"], [f"4 other files are {NOT_READ}: a, b, c … (`lakeward plan shop.item` names more)"]),
    ],
)
def test_files_that_are_left_alone_are_said_once_with_their_number(names: list[str], words: list[str]) -> None:
    run = TableRun(TableName("shop", "item"), files_left_alone=names)
    assert list(run.all_cautions) == words
