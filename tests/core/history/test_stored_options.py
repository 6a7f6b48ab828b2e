"""The options of a history are settled with its first batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from memory_jobs import NAME, UPDATE, TableFeed, columns, event, item

from lakeward.core.errors import SchemaConflict
from lakeward.core.events import ChangeEvent
from lakeward.core.history.options import ByColumn, ByRun, History, Kind, Surrogate, Track, ValidityColumns
from lakeward.core.history.stored_options import differences, text_of_options
from lakeward.core.pipeline.apply import apply_changes
from lakeward.core.pipeline.job import Job
from lakeward.core.pipeline.preparation import prepare_next_batch
from lakeward.core.progress import Progress
from lakeward.core.schema import Type
from lakeward.core.schema_changes.evolution import Policies

SCHEMA = columns(id="bigint", a="bigint", b="bigint")
DIMENSION = item(SCHEMA, history=History())
OF_A = History(track=Track(frozenset({"a"}), but=False))
DATE = Type("date")

OTHERS = {
    "validity": (
        History(validity=ByColumn("a"), validity_columns=ValidityColumns(type=Type("bigint"))),
        "time",
        "column a",
    ),
    "kind of a": (OF_A, "2", "2"),
    "kind of b": (History(kinds={"b": Kind.PREVIOUS}), "2", "3"),
    "kind of all other columns": (OF_A, "2", "1"),
    "first_load": (History(first_load=-86_400_000_000), "none", "1969-12-31 00:00:00"),
    "source_zone": (
        History(zone="Europe/Berlin", validity_columns=ValidityColumns(type=DATE)),
        "UTC",
        "Europe/Berlin",
    ),
    "previous_key": (History(previous_key=True), "false", "true"),
    "valid_from": (History(validity_columns=ValidityColumns(valid_from="since")), "valid_from", "since"),
    "valid_to": (History(validity_columns=ValidityColumns(valid_to="until")), "valid_to", "until"),
    "is_current": (History(validity_columns=ValidityColumns(is_current=None)), "is_current", "none"),
    "type": (History(validity=ByRun(), validity_columns=ValidityColumns(type=DATE)), "timestamp", "date"),
    "open_end": (History(validity_columns=ValidityColumns(open_end=0)), "none", "1970-01-01 00:00:00"),
    "closed": (History(validity_columns=ValidityColumns(type=DATE, closed=True)), "false", "true"),
    "known": (History(is_bitemporal=True), "false", "true"),
    "known_from": (History(is_bitemporal=True), "none", "known_from"),
    "known_to": (History(is_bitemporal=True, validity_columns=ValidityColumns(known_to="until")), "none", "until"),
    "surrogate": (History(validity_columns=ValidityColumns(surrogate=Surrogate.HASH)), "none", "hash"),
    "surrogate_column": (
        History(validity_columns=ValidityColumns(surrogate=Surrogate.HASH, surrogate_column="nr")),
        "none",
        "nr",
    ),
}


def changed(was: History, is_: History, renames: dict[str, str] | None = None) -> dict[str, tuple[str, str]]:
    found = differences(text_of_options(was, ["id"]), is_, ["id"], renames or {})
    return {name: (before, now) for name, before, now in found}


@pytest.mark.parametrize("option", [name for name in OTHERS if name != "kind of a"])
def test_each_changed_option_is_named(option: str) -> None:
    other, before, now = OTHERS[option]
    assert changed(History(), other)[option] == (before, now)
    assert changed(other, History())[option] == (now, before)
    assert changed(other, other) == {}


def test_options_with_the_same_meaning_have_the_same_text() -> None:
    kinds = {"a": Kind.VERSION, "b": Kind.OVERWRITE}
    same = [
        replace(OF_A, kinds={"b": Kind.OVERWRITE}),
        replace(OF_A, track=Track(frozenset({"a", "id"}), but=False)),
        History(track=Track(frozenset({"b"}), but=False), kinds=kinds),
        replace(OF_A, zone="Europe/Berlin", validity_columns=ValidityColumns(surrogate_column="unused")),
    ]
    assert {text_of_options(one, ["id"]) for one in same} == {text_of_options(OF_A, ["id"])}
    assert text_of_options(History(), ["id"]) == "{}"


def test_a_renamed_column_is_no_changed_option() -> None:
    was = replace(OF_A, validity=ByColumn("a"), validity_columns=ValidityColumns(type=Type("bigint")))
    is_ = replace(was, validity=ByColumn("c"), track=Track(frozenset({"c"}), but=False))
    assert changed(was, is_, {"a": "c"}) == {}
    assert changed(was, is_).keys() == {"validity", "kind of a", "kind of c"}


def test_an_option_of_a_later_version_is_a_change() -> None:
    found = list(differences('{"retention":"7y"}', History(), ["id"], {}))
    assert found == [("retention", "7y", "none")]


# Through the pipeline.


def feed_of(history: History | None) -> TableFeed:
    """Return a table that has rows."""
    feed = TableFeed(replace(DIMENSION, history=history))
    feed.deliver(1, change(1))
    return feed


def change(place: int) -> ChangeEvent:
    return event(UPDATE, place, a=place, b=place)


def with_history(feed: TableFeed, history: History | None) -> Job[Any]:
    return replace(feed.job, dimension=replace(DIMENSION, history=history))


@pytest.mark.parametrize(
    ("was", "is_", "what", "found"),
    [
        (
            History(),
            History(validity_columns=ValidityColumns(valid_from="since")),
            "shop.item: its history cannot be kept in another way",
            "its versions were made with valid_from: valid_from; the settings say valid_from: since",
        ),
        (
            History(validity_columns=ValidityColumns(surrogate=Surrogate.NUMBER)),
            History(validity_columns=ValidityColumns(surrogate=Surrogate.HASH)),
            "shop.item: its history cannot be kept in another way",
            "its versions were made with surrogate: number; the settings say surrogate: hash",
        ),
        (
            None,
            History(),
            "shop.item: a mirror cannot become a history",
            "it has the newest of each of 1 row, and how they were before is not known",
        ),
        (
            History(),
            None,
            "shop.item: a history cannot become a mirror",
            "it has 1 version, which a mirror has not",
        ),
    ],
)
def test_a_table_with_rows_refuses_other_options(
    was: History | None, is_: History | None, what: str, found: str
) -> None:
    feed = feed_of(was)
    feed.source.put(NAME, 2, [change(2)])
    with pytest.raises(SchemaConflict) as refused:
        apply_changes(with_history(feed, is_))
    assert (refused.value.what, refused.value.found) == (what, found)
    assert "drop the table" in str(refused.value.todo)
    assert feed.progress.batch == 1
    feed.deliver(3, change(3))
    assert feed.progress.batch == 2


def test_another_zone_is_refused_for_days_and_means_nothing_for_times() -> None:
    by_day = History(validity_columns=ValidityColumns(type=DATE))
    with pytest.raises(SchemaConflict) as refused:
        prepare_next_batch(with_history(feed_of(by_day), replace(by_day, zone="Asia/Tokyo")))
    found = "its versions were made with source_zone: UTC; the settings say source_zone: Asia/Tokyo"
    assert refused.value.found == found
    assert "the only one for days in earlier versions of lakeward" in str(refused.value.todo)
    assert "drop the table and its side tables, and load it anew" in str(refused.value.todo)
    prepare_next_batch(with_history(feed_of(History()), History(zone="Asia/Tokyo")))


def test_other_options_are_refused_before_a_file_comes() -> None:
    feed = feed_of(History())
    with pytest.raises(SchemaConflict, match="cannot become a mirror"):
        prepare_next_batch(with_history(feed, None))
    with pytest.raises(SchemaConflict, match="its key cannot become another"):
        prepare_next_batch(replace(feed.job, dimension=replace(feed.job.dimension, key=("a",))))


def test_a_table_stores_its_options_and_accepts_new_names_of_its_columns() -> None:
    feed = feed_of(History(kinds={"a": Kind.KEEP_FIRST}))
    assert feed.progress.history == '{"kinds":{"a":0}}'
    assert Progress.from_json(feed.progress.to_json()) == feed.progress
    renamed, history = columns(id="bigint", c="bigint", b="bigint"), History(kinds={"c": Kind.KEEP_FIRST})
    policies = Policies(renames={"a": "c"})
    feed.job = replace(feed.job, dimension=replace(DIMENSION, schema=renamed, history=history, policies=policies))
    feed.deliver(2, event(UPDATE, 2, c=2, b=2), schema=renamed)
    assert feed.progress.history == '{"kinds":{"c":0}}'


def test_a_mirror_stores_no_options_of_a_history() -> None:
    assert "history" not in feed_of(None).progress.to_json()
