"""Messages of other tables: their numbers add up, their names are bounded, and a commit keeps them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.core.ledger.other_tables import MOST_NAMES, OtherTables, add_others, words_of
from lakeward.core.merge.counts import Counts
from lakeward.core.progress import Progress

BATCHES = st.lists(st.dictionaries(st.sampled_from("abc"), st.integers(1, 5), min_size=1), max_size=5)


def of(counts: dict[str, int]) -> OtherTables:
    names = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return OtherTables(sum(counts.values()), tuple(names))


@given(BATCHES)
def test_messages_of_other_tables_add_up_over_batches(batches: list[dict[str, int]]) -> None:
    """The sum of any number of batches is that of one batch with all messages, also after a commit."""
    found: OtherTables | None = None
    for batch in batches:
        found = add_others(add_others(found, None), of(batch))
    every = {name: sum(batch.get(name, 0) for batch in batches) for name in "abc"}
    assert found == (of({name: n for name, n in every.items() if n}) if batches else None)
    assert Progress.from_json(Progress(others=found).to_json()).others == found


def test_only_the_most_frequent_names_are_stored() -> None:
    many = of({f"shop.t{number:02}": number for number in range(1, 9)})
    more = of({f"shop.u{number:02}": number for number in range(1, 9)})
    found = many + more
    assert (found.messages, len(found.names)) == (72, MOST_NAMES)
    assert str(found) == "shop.t08 (8), shop.u08 (8), shop.t07 (7) …"


@pytest.mark.parametrize(
    ("is_shared", "has_rows", "words"),
    [
        (False, True, ["3 messages of other tables were skipped: a (2), b (1)"]),
        (True, True, []),
        (
            False,
            False,
            ["Its files have no message of s.t. They have messages of a (2), b (1): is `s.t` misspelt?"],
        ),
        (True, False, ["Its files have no message of s.t. They have messages of a (2), b (1): is `s.t` misspelt?"]),
    ],
)
def test_messages_of_other_tables_are_described_in_words(is_shared: bool, has_rows: bool, words: list[str]) -> None:
    """In a folder of many tables such messages are expected, unless there are no others."""
    others = replace(of({"a": 2, "b": 1}), is_shared=is_shared)
    assert words_of(others, "s.t", has_rows=has_rows) == words
    assert words_of(None, "s.t", has_rows=has_rows) == []


def test_skipped_rows_alone_are_no_rows_of_the_table() -> None:
    assert not Progress(totals=Counts(read=2, skipped=2)).has_rows
    assert Progress(totals=Counts(read=2, skipped=1, quarantined=1)).has_rows
