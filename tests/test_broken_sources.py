"""The laws of a source can fail, each on a mistake."""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest
from broken_sources import BROKEN, CUTS_TEXTS, NULLS_EMPTY_TEXTS, ZERO_IS_A_PLACE
from changed_sources import LogSource, TopicSource
from memory_feeds import feed
from mutations import FAILURES, mutate

from lakeward.adapters.memory import MemorySource
from lakeward.core.dimension import Snapshots
from lakeward.core.events import Sequences
from lakeward.core.ports import Cells
from lakeward.core.schema import Column, parse_type
from lakeward.plugins.testing import Feed
from lakeward.plugins.testing.contract import Closed
from lakeward.plugins.testing.feeds import Law
from lakeward.plugins.testing.laws import odd_values
from lakeward.plugins.testing.laws.sources import (
    column_names,
    full_loads,
    log_restarts,
    object_selection,
    other_tables,
    read_rows,
    repaired_rows,
    topic_restarts,
)


def _source_for(law: Law) -> MemorySource:
    """Return a source for which a law is open."""
    if law in log_restarts.LAWS:
        return LogSource()
    return TopicSource() if law in topic_restarts.LAWS else MemorySource()


@pytest.mark.parametrize("law", object_selection.LAWS)
def test_a_broken_source_breaks_its_law(law: Law) -> None:
    law(feed(_source_for(law)))
    for kind in BROKEN[law.__name__]:
        with pytest.raises(FAILURES):
            law(feed(kind()))


def test_every_law_has_a_source_that_breaks_it() -> None:
    assert sorted(law.__name__ for law in object_selection.LAWS) == sorted(BROKEN)


CLOSED: tuple[tuple[Any, str, dict[str, Any]], ...] = (
    (other_tables, "several tables", {"put_mixed": None}),
    (column_names, "names of columns", {"put_named": None}),
    (full_loads, "full loads", {"put_load": None}),
    (log_restarts, "a log of the source", {}),
    (topic_restarts, "topics whose messages", {}),
)
"""Laws that are closed to a source without something, and what it lacks."""


@pytest.mark.parametrize(
    ("law", "message", "lacking"),
    [(law, message, lacking) for laws, message, lacking in CLOSED for law in laws.LAWS],
)
def test_a_law_is_closed_to_a_source_without_what_it_needs(law: Law, message: str, lacking: dict[str, Any]) -> None:
    with pytest.raises(Closed, match=message):
        law(replace(feed(MemorySource()), **lacking))


def test_the_law_of_changes_after_a_load_is_closed_to_snapshots() -> None:
    for law in full_loads.LAWS:
        law_of_changes = law is full_loads.changes_follow_the_full_load_of_their_epoch
        with pytest.raises(Closed, match="changes behind") if law_of_changes else nullcontext():
            law(replace(feed(MemorySource()), snapshots=Snapshots()))


def test_a_source_of_log_positions_may_have_a_table_without_them() -> None:
    """Its sequences are 0, and arrival is the only order."""
    law = read_rows.sequences_are_as_the_source_declares
    law(replace(feed(ZERO_IS_A_PLACE()), has_places=False))
    places = MemorySource(sequences=Sequences.PLACES)
    without_places = replace(feed(MemorySource()), open=lambda: places, has_places=False)
    with pytest.raises(AssertionError, match="the order of arrival alone"):
        law(replace(without_places, put=lambda dimension, place, items: places.put(dimension.name, place, items)))


def test_a_source_is_tested_with_the_texts_that_it_can_hold() -> None:
    def without_lines(kind: type[MemorySource]) -> Feed:
        return replace(feed(kind()), holds=lambda text: len(text.splitlines()) <= 1)

    odd_values.a_cell_is_read_as_it_was_written(without_lines(CUTS_TEXTS))
    with pytest.raises(AssertionError, match=r"read is .* and written was"):
        odd_values.a_cell_is_read_as_it_was_written(without_lines(NULLS_EMPTY_TEXTS))


def _shows_order(add: int = 0) -> type[MemorySource]:
    """Return a source whose rows in quarantine have a column with their order."""
    return mutate(
        MemorySource, "shows orders", cells=lambda _, __, ___, row: Cells({"rev": str(row.sequence + add)})
    )


def test_the_text_of_a_further_column_is_checked() -> None:
    rev = Column("rev", parse_type("bigint"))

    def with_order(kind: type[MemorySource]) -> Feed:
        return replace(feed(kind()), beside={rev: lambda item: str(item.position.sequence)})

    law = repaired_rows.cells_of_a_row_in_quarantine_are_those_of_the_source
    law(with_order(_shows_order()))
    with pytest.raises(AssertionError, match="read is"):
        law(with_order(_shows_order(add=1)))
    with pytest.raises(AssertionError, match="cells of unknown columns"):
        law(feed(_shows_order()()))
