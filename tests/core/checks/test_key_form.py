"""A table stops where the settings would read its keys in another form than those of the stored rows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from memory_jobs import INSERT, NAME, TableFeed

from lakeward.core.checks.key_form import key_form
from lakeward.core.dimension import Dimension, Snapshots
from lakeward.core.errors import SchemaConflict
from lakeward.core.events import ChangeEvent, Operation, Position
from lakeward.core.pipeline.job import Settlement
from lakeward.core.pipeline.release import release
from lakeward.core.ports import Entry, RepairedRow
from lakeward.core.schema import Column, Schema, parse_type


def dimension(*types: str) -> Dimension:
    """Return a table with a key of columns of these types; of "" none is declared."""
    named = {f"k{number}": of for number, of in enumerate(types, 1)}
    columns = tuple(Column(name, parse_type(of)) for name, of in named.items() if of)
    return Dimension(name=NAME, schema=Schema(columns), key=tuple(named))


class Play(TableFeed):
    """A table whose source returns a given key form."""

    def __init__(self) -> None:
        super().__init__(dimension("int"))

    def run(self, order: int, form: str | None) -> str | None:
        """Apply an object, and return the stored key form."""
        self.source.form_of_keys = form
        place, cells = Position(1, 0, order, 1), {"k1": order}
        row = ChangeEvent(operation=INSERT, position=place, key=(order,), cells=cells)
        self.deliver(order, row, modified=1)
        return self.progress.key_form


@pytest.mark.parametrize(
    ("was", "is_", "found"),
    [
        ("times in UTC", "times in Tokyo", "read with times in UTC; the settings say with times in Tokyo"),
        ("", "times in UTC", "read as it is written; the settings say with times in UTC"),
        ("times in UTC", "", "read with times in UTC; the settings say as it is written"),
    ],
)
def test_another_key_form_stops_the_table(was: str, is_: str, found: str) -> None:
    play = Play()
    assert play.run(1, was) == was
    for _ in range(2):
        with pytest.raises(SchemaConflict) as refused:
            play.run(2, is_)
        assert str(refused.value.found).endswith(found)
    assert play.run(2, was) == was


def test_a_repaired_row_is_not_released_under_another_key_form_or_order(entry: Entry) -> None:
    play = Play()
    play.run(1, "times in UTC")
    play.source.form_of_keys = "times in Tokyo"
    with pytest.raises(SchemaConflict, match="cannot be read in another way"):
        release(play.job, Settlement(repaired=[entry]))
    play.source.form_of_keys, play.source.order_column = "times in UTC", "at"
    play.run(2, "times in UTC")
    play.source.order_column = "since"
    with pytest.raises(SchemaConflict, match="cannot be made of something else"):
        release(play.job, Settlement(repaired=[entry]))


@pytest.fixture
def entry() -> Entry:
    place: dict[str, Any] = {"object": "a.csv", "row": 1, "epoch": 1, "sequence": 0, "order": 9}
    known: dict[str, Any] = {"key": '["1"]', "reason": "cast", "detail": "", "operation": "insert", "text": "1,x"}
    return Entry(**place, **known, batch=1, since=0, repaired=RepairedRow(operation=Operation.INSERT, cells={}))


def test_a_source_without_a_key_form_never_stops_the_table() -> None:
    play = Play()
    assert play.run(1, None) is None
    assert play.run(2, "times in UTC") == "times in UTC"
    assert play.run(3, None) == "times in UTC"


@pytest.mark.parametrize(
    ("types", "formats", "is_trimmed", "words"),
    [
        (("int", "string"), {}, False, ""),
        (("int", "string"), {"k2": "x", "other": "y"}, False, "column 2 in the format 'x'"),
        (("timestamp",), {}, True, "times in UTC"),
        (("int", ""), {}, True, None),
        (("timestamp_ntz", "date"), {}, True, ""),
        (("string",), {}, True, "texts without blanks at their end"),
    ],
)
def test_the_key_form_names_the_settings_that_change_values_of_the_key(
    types: tuple[str, ...], formats: dict[str, str], is_trimmed: bool, words: str | None
) -> None:
    assert key_form(dimension(*types), formats, "UTC", is_trimmed=is_trimmed) == words


def test_how_messages_write_a_column_counts_where_it_has_no_format() -> None:
    ways = {"k1": "unscaled", "other": "hex"}
    assert key_form(dimension("decimal(5,2)", "int"), {}, "UTC", ways) == "column 1 written as unscaled"


def test_a_key_form_of_an_earlier_version_is_accepted() -> None:
    play = Play()
    assert play.run(1, "column 1 in the format 'd, M'") == "column 1 in the format 'd, M'"
    now = "column 1 in the format 'd, M', column 2 written as hex"
    assert play.run(2, now) == now
    with pytest.raises(SchemaConflict):
        play.run(3, "column 1 in the format 'd, M', column 2 written as base64")


def test_a_table_of_snapshots_has_no_key_form() -> None:
    assert key_form(replace(dimension("timestamp"), snapshots=Snapshots()), {}, "UTC") is None
