"""What the word for an operation means, in Python as in SQL."""

from __future__ import annotations

import pytest

from lakeward.adapters.spark.frames.source_rows import UPSERT, RowSettings
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import Operation
from lakeward.core.schema import Schema

NAMED = {"D": "delete", "T": "truncate", "S": UPSERT}


@pytest.mark.parametrize(
    ("word", "takes_other_words", "is_whole", "operation"),
    [
        ("D", False, True, Operation.DELETE),
        ("T", False, True, Operation.TRUNCATE),
        ("S", False, True, Operation.READ),
        ("S", False, False, Operation.UPDATE),
        ("X", False, True, None),
        ("X", True, True, Operation.READ),
        ("X", True, False, Operation.UPDATE),
        (' {"op": "D"}', True, True, None),
        (None, True, True, None),
    ],
)
def test_a_word_means_what_the_settings_say(
    word: str | None, takes_other_words: bool, is_whole: bool, operation: Operation | None
) -> None:
    telling = _telling(takes_other_words=takes_other_words)
    assert telling.operation_of(word, None, is_whole=is_whole) is operation


def test_an_indicator_is_asked_before_the_word() -> None:
    telling = _telling(takes_other_words=False)
    assert telling.operation_of("D", "I", is_whole=True) is Operation.INSERT
    assert telling.operation_of("D", "?", is_whole=True) is None


def _telling(*, takes_other_words: bool) -> RowSettings:
    dimension = Dimension(name=TableName("shop", "item"), key=("id",), schema=Schema(()))
    return RowSettings(dimension=dimension, operations=NAMED, takes_other_words=takes_other_words)
