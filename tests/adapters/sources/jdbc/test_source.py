"""The source `jdbc` on a database in this process: when it reads, and that nothing is half applied."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

import pyarrow as pa
import pytest
from fake_database import ITEM, SECOND, START, FakeDatabase, Play, at, by_cursor, of_rows, with_settings
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeward.adapters.sources.jdbc import source, staging
from lakeward.adapters.sources.jdbc.file_names import StagedRead
from lakeward.adapters.spark.frames.local_frame import LocalFrame
from lakeward.core.dimension import Deletes, Snapshots, TableName
from lakeward.core.errors import ConfigError, LakewardError, StoreUnreachable
from lakeward.core.history.options import History
from lakeward.core.history.snapshot_splice import span_of
from lakeward.core.ledger.full_loads import Load
from lakeward.core.ledger.selection import ObjectHistory
from lakeward.core.progress import Progress

HOUR = 3600


def test_a_table_is_read_whole_at_first_and_again_once_its_snapshot_is_old(tmp_path: Path) -> None:
    play = of_rows(Play(tmp_path), 1, 2, 3)
    assert (play.run(), play.names) == (1, play.expected)
    play.database.delete(2)
    play.pass_by(12 * HOUR - 1)
    assert (play.run(), len(play.names)) == (0, 3), "its snapshot is recent: the database is not asked"
    play.pass_by(1)
    assert (play.run(), play.names) == (1, play.expected)
    assert (len(play.database.queries), play.staged()) == (2, []), "what is applied is removed"


def test_the_place_in_the_log_stands_in_the_names_of_what_was_read(tmp_path: Path) -> None:
    play = of_rows(Play(tmp_path), 1)
    (item,) = play.take().objects
    staged = StagedRead.of(item.name)
    assert staged is not None
    assert (staged.position, staged.time, staged.is_snapshot) == ("0-16B3748", play.now, True)


def test_a_snapshot_that_is_cut_off_leaves_nothing(tmp_path: Path) -> None:
    play = of_rows(Play(tmp_path), 1, 2, 3)
    play.run()
    play.pass_by(13 * HOUR)
    play.database.cut_off = True
    with pytest.raises(StoreUnreachable):
        play.run()
    assert (play.staged(), play.names) == ([], play.expected)
    play.database.cut_off = False
    play.database.delete(1)
    assert (play.run(), play.names) == (1, play.expected)


def test_a_process_that_dies_before_its_commit_is_followed_by_one_that_applies_the_same(tmp_path: Path) -> None:
    for play in (Play(tmp_path / "whole"), by_cursor(tmp_path / "cursor")):
        of_rows(play, 1, 2)
        assert play.step(dies=True)
        assert (play.run(), play.names, len(play.database.queries) - bool(play.settings)) == (1, play.expected, 1)
    play.database.put(3, "new", 60)
    assert play.step(dies=True)
    before = play.staged()
    play.pass_by(HOUR)
    assert play.step()
    assert (before, play.names) == ([*play.seen][-1].split("/")[:1], play.expected)


def test_what_a_process_applied_and_did_not_remove_is_told_to_be_in_the_way(tmp_path: Path) -> None:
    play = of_rows(Play(tmp_path), 1, 2, 3)
    play._apply(selection := play.take())
    assert len(play.staged()) == 1
    again = play.take()
    assert not again.objects
    assert [item.version for item in again.leftovers] == [item.version for item in selection.objects]
    assert play.open().archive(play.dimension, again.leftovers) == ()
    assert play.staged() == []


def test_what_was_staged_and_is_gone_is_read_again(tmp_path: Path) -> None:
    play = of_rows(by_cursor(tmp_path), 1, 2)
    play.run()
    play.database.put(3, "new", 60)
    noted = {item.name: item for item in play.take().objects}
    play.lose_staged()
    play.pass_by(1)
    selection = play.open().select_objects(play.dimension, replace(play.object_history, waiting=noted))
    assert selection.superseded == tuple(noted), "the ledger does not wait for it"
    assert (play.run(), play.names) == (1, play.expected)


def test_a_query_begins_at_the_highest_cursor_that_was_applied_less_the_overlap(tmp_path: Path) -> None:
    play = of_rows(by_cursor(tmp_path, overlap="30s"), 1, 2)
    play.run()
    play.database.put(3, "new", 100)
    assert (play.run(), play.names) == (1, play.expected)
    play.database.put(1, "other", 200)
    assert (play.run(), play.names) == (1, play.expected)
    assert [query.since for query in play.database.queries] == [
        None,
        *(play.now + second * SECOND for second in (1 - 30, 1 - 30, 100 - 30, 100 - 30, 200 - 30)),
    ]
    assert play.run() == 0, "rows of the overlap alone are nothing new"


def test_a_process_that_runs_once_asks_for_a_table_once(tmp_path: Path) -> None:
    play = of_rows(by_cursor(tmp_path), 1)
    source = replace(play.open(), runs_once=True)
    batches = 0
    while (selection := source.select_objects(play.dimension, play.object_history)).objects:
        play._apply(selection)
        source.archive(play.dimension, selection.objects)
        batches += 1
        play.database.put(1 + batches, "new", 60 * batches)
    assert (batches, [*play.names]) == (2, [1, 2]), "as a whole, and by its cursor"
    assert (play.run(), play.names) == (1, play.expected)


def test_rows_of_a_commit_that_came_late_are_found_within_the_overlap(tmp_path: Path) -> None:
    play = of_rows(by_cursor(tmp_path, overlap="30s"), 1)
    play.database.put(2, "late", 80, is_hidden=True)
    play.database.put(3, "first", 100)
    play.run()
    assert set(play.names) == {1, 3}
    play.database.commit()
    assert (play.run(), play.names) == (1, play.expected)


def test_a_table_with_a_cursor_loses_deleted_rows_with_its_next_snapshot(tmp_path: Path) -> None:
    play = of_rows(by_cursor(tmp_path, snapshots=True, every="1h"), 1, 2, 3)
    play.run()
    play.database.delete(2)
    play.database.put(4, "new", 30)
    assert (play.run(), sorted(play.names)) == (1, [1, 2, 3, 4])
    play.pass_by(HOUR)
    play.database.put(5, "newest", 3700)
    assert (play.run(), play.names) == (1, play.expected)
    play.database.put(1, "changed", 3800)
    assert (play.run(), play.names) == (1, play.expected)


def test_a_reload_that_was_asked_for_reads_the_table_whole_and_passes_over_what_waits(tmp_path: Path) -> None:
    play = of_rows(by_cursor(tmp_path), 1, 2)
    play.run()
    play.database.put(1, "passing", 10)
    play.step(dies=True)
    play.database.delete(2)
    play.database.rows[0]["name"] = "as it is, by a change that leaves the cursor"
    play.pass_by(1)
    play.asked = play.now
    assert (play.run(), play.names, play.epoch) == (1, play.expected, 2)
    assert play.staged() == []


def test_what_a_reload_would_mean_is_told_without_reading(tmp_path: Path) -> None:
    play = of_rows(by_cursor(tmp_path), 1)
    play.run()
    queries = len(play.database.queries)
    selection = play.open().select_objects(play.dimension, replace(play.object_history, load=Load(epoch=2)))
    assert (selection.objects, len(play.database.queries)) == ((), queries)


def test_a_cursor_may_be_a_number(tmp_path: Path) -> None:
    database = FakeDatabase(columns={"id": "int", "name": "string", "updated_at": "bigint"})
    play = by_cursor(tmp_path, overlap=5)
    play.database = database
    database.rows = [{"id": 1, "name": "a", "updated_at": 100}, {"id": 2, "name": "b", "updated_at": 90}]
    play.run()
    database.rows.append({"id": 3, "name": "c", "updated_at": 96})
    assert (play.run(), play.names) == (1, play.expected)
    assert [query.since for query in database.queries] == [None, 95, 95, 95]


def test_an_empty_table_and_one_that_gets_its_first_rows(tmp_path: Path) -> None:
    play = by_cursor(tmp_path)
    assert (play.run(), play.names) == (1, {})
    of_rows(play, 1)
    assert (play.run(), play.names) == (1, play.expected)


@pytest.mark.parametrize(
    ("settings", "snapshots", "words"),
    [
        ({}, False, "nothing says when it is read again"),
        ({"cursor": "changed"}, False, "it has no column changed"),
        ({"cursor": "name"}, False, "name cannot be its cursor"),
        ({"cursor": "updated_at", "overlap": 5}, False, "`overlap` does not go with the cursor"),
        ({"cursor": "id", "overlap": "5m"}, True, "`overlap` does not go with the cursor"),
    ],
)
def test_bad_settings_are_refused(tmp_path: Path, settings: dict[str, str], snapshots: bool, words: str) -> None:
    play = Play(tmp_path, settings=settings, snapshots=snapshots)
    with pytest.raises(ConfigError, match=words) as refused:
        play.take()
    assert refused.value.todo
    assert not play.database.queries


def test_a_table_that_the_database_lacks_or_that_has_no_key_is_refused(tmp_path: Path) -> None:
    play = Play(tmp_path)
    for dimension, words in (
        (replace(play.dimension, name=ITEM._replace(table="other")), "no such table"),
        (replace(play.dimension, key=()), "needs a key"),
    ):
        with pytest.raises(LakewardError, match=words):
            play.open().select_objects(dimension, play.object_history)


def test_two_tables_of_one_read_the_same_rows(tmp_path: Path) -> None:
    one = of_rows(Play(tmp_path), 1, 2)
    other = with_settings(one)
    other.seen, other.rows, other.left = {}, {}, set()
    selection = one.take()
    assert other.take().objects == selection.objects
    assert len(one.database.queries) == 1


def test_a_mirror_is_taken_back_and_what_keeps_ended_rows_is_not(tmp_path: Path) -> None:
    play = Play(tmp_path)
    play.database.put(1, "a", 0)
    play.run()
    objects, source = [*play.seen.values()], play.open()
    assert objects
    assert play.staged() == []
    assert source.find_missing(play.dimension, objects) == ()
    for keeps in (replace(play.dimension, deletes=Deletes.SOFT), replace(play.dimension, history=History())):
        with pytest.raises(ConfigError, match="cannot be rolled back over what was read from its database"):
            source.find_missing(keeps, objects)
        assert source.find_missing(keeps, []) == ()
    assert len(play.database.queries) == 1


def test_rows_of_a_snapshot_are_a_full_load_and_those_of_a_query_are_ordered_by_the_cursor(tmp_path: Path) -> None:
    play = of_rows(by_cursor(tmp_path), 1)
    opened, selection = play.open(), play.take()
    batch = opened.read(play.dimension, selection, 1)
    assert (batch.facts.loaded, [item.is_load for item in batch.facts.objects]) == (1, [True])
    play._apply(selection)
    opened.archive(play.dimension, selection.objects)
    play.database.put(2, "new", 2.5)
    batch = opened.read(play.dimension, opened.select_objects(play.dimension, play.object_history), 1)
    assert isinstance(batch.frame, LocalFrame)
    assert batch.facts.greatest is not None
    assert batch.facts.greatest.sequence == play.now + int(2.5 * SECOND)
    assert [item.is_load for item in batch.facts.objects] == [False]
    kept = replace(play.dimension, snapshots=Snapshots(), history=History())
    assert span_of(kept, batch.facts, Progress(batch=1), []) is None, "it is no older snapshot of a history"
    assert isinstance(batch.frame.rows, pa.Table)


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.integers(1, 5)),
        st.tuples(st.just("hide"), st.integers(1, 5)),
        st.tuples(st.just("delete"), st.integers(1, 5)),
        st.tuples(st.just("wait"), st.sampled_from([1, 5, 10, 13 * HOUR])),
        st.tuples(st.sampled_from(["commit", "step", "die", "lose", "cut off"]), st.just(0)),
    ),
    max_size=30,
)


def play_steps(play: Play, steps: list[tuple[str, int]]) -> None:
    """Let a database change and a pipeline run, be cut off and die; transactions commit within 30 seconds."""
    others: dict[str, Callable[[], object]] = {
        "commit": play.database.commit,
        "lose": play.lose_staged,
        "step": play.step,
        "die": lambda: play.step(dies=True),
        "cut off": lambda: cut_off(play),
    }
    for count, (what, value) in enumerate(steps):
        if what in others:
            others[what]()
        elif what == "wait":
            wait(play, value)
        else:
            change(play, what, value, f"{value} of step {count}")


def wait(play: Play, seconds: int) -> None:
    if seconds > 10 or any(
        row["updated_at"] < at((play.now - START) / SECOND - 15) for row in play.database.hidden
    ):
        play.database.commit()
    play.pass_by(seconds)


def change(play: Play, what: str, key: int, name: str) -> None:
    if key in {row["id"] for row in play.database.hidden}:  # a row that a transaction changed is locked by it
        return
    if what == "delete":
        play.database.delete(key)
    else:
        play.database.put(key, name, (play.now - START) / SECOND, is_hidden=what == "hide")


def cut_off(play: Play) -> None:
    """Let the database go away in the middle of the next query, if it is long enough."""
    play.database.cut_off = True
    try:
        play.step()
    except StoreUnreachable:
        pass
    finally:
        play.database.cut_off = False


@settings(max_examples=60)
@given(steps=STEPS, snapshots=st.booleans())
def test_the_table_becomes_that_of_the_database(steps: list[tuple[str, int]], snapshots: bool) -> None:
    with TemporaryDirectory() as made:
        play = by_cursor(Path(made), snapshots=snapshots, overlap="30s")
        play_steps(play, steps)
        play.database.commit()
        if snapshots:
            play.pass_by(13 * HOUR)
        play.run()
        there = {key: name for key, name in play.names.items() if snapshots or key in play.expected}
        assert there == play.expected


# What would be wrong, and which of the tests above sees it.


def _written_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot that was cut off in the middle is applied."""

    @contextmanager
    def in_place(_table: TableName, home: Path) -> Iterator[Path]:
        home.mkdir(parents=True, exist_ok=True)
        yield home / "20261201130000000~snapshot"

    monkeypatch.setattr(staging, "_new_folder", in_place)


def _without_overlap(monkeypatch: pytest.MonkeyPatch) -> None:
    """The cursor jumps over rows that were committed late."""
    monkeypatch.setattr(source, "check_cursor", lambda *_: 0)


def _kept_before_the_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    """What was staged counts as progress, whatever became of it."""
    kept: list[str] = []
    land = staging.FolderStaging.land

    def landed(self: staging.FolderStaging, table: TableName, *rest: object) -> None:
        land(self, table, *rest)  # type: ignore[arg-type]
        kept.extend(folder.name for folder in (self.root / "shop" / "item").glob("2*"))

    def applied(object_history: ObjectHistory) -> Iterator[StagedRead]:
        return (one for name in [*object_history.applied, *kept] if (one := StagedRead.of(name)))

    monkeypatch.setattr(staging.FolderStaging, "land", landed)
    monkeypatch.setattr(source, "_applied_reads", applied)


@pytest.mark.parametrize(
    ("mistake", "law"),
    [
        (_written_in_place, test_a_snapshot_that_is_cut_off_leaves_nothing),
        (_without_overlap, test_rows_of_a_commit_that_came_late_are_found_within_the_overlap),
        (_kept_before_the_commit, test_what_was_staged_and_is_gone_is_read_again),
    ],
)
def test_mistakes_are_seen(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    mistake: Callable[[pytest.MonkeyPatch], None],
    law: Callable[[Path], None],
) -> None:
    law(tmp_path / "right")
    mistake(monkeypatch)
    with pytest.raises(AssertionError):
        law(tmp_path / "wrong")
