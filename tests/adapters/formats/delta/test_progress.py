"""What the log of a Delta table says of us, whatever others did to it; no Spark."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from delta_logs import ITEM, commit, lineage_of, make_table
from deltalake import DeltaTable

from lakeward.adapters.formats.delta.checks import check_options
from lakeward.adapters.formats.delta.metadata.progress import APP, commits_of, read_table_state
from lakeward.adapters.formats.delta.options import TableOptions
from lakeward.adapters.formats.delta_rs.columns import to_delta
from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.adapters.formats.delta_rs.side_table import DeltaSideTable
from lakeward.core.dimension import Dimension
from lakeward.core.errors import ConfigError, TableError
from lakeward.core.progress import Progress
from lakeward.core.schema import Column, Schema, Type


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """A table of two batches, in the versions 1 and 2."""
    return make_table(Places("lake", "{schema}", tmp_path), 2)


def restore(places: Places, version: int | None, timestamp: str | None = None) -> None:
    """Write the commit of a RESTORE as Spark does; that of a time names no version."""
    path = places.of(ITEM)
    file = Path(path) / "_delta_log" / f"{DeltaTable(path).version() + 1:020}.json"
    parameters = {"version": version, "timestamp": timestamp}
    info = {"timestamp": 1, "operation": "RESTORE", "operationParameters": parameters}
    file.write_text(json.dumps({"commitInfo": info}) + "\n")


def test_the_last_batch_stands(places: Places) -> None:
    assert read_table_state(places, ITEM).progress.batch == 2
    assert {batch: made.commit for batch, made in commits_of(places, ITEM).items()} == {1: "1", 2: "2"}


@pytest.mark.parametrize(
    ("log", "last", "version", "timestamp", "words"),
    [
        ("places", 2, 1, None, "to what it was at batch 1"),
        ("places", 2, 0, None, "to before lakeward's first commit"),
        ("places", 2, None, "2026-11-21", "to a time"),
        ("forgotten", 4, 1, None, "to what it was at batch 1"),
        ("forgotten", 4, 0, None, "to version 0, and its log does not say any more which batch that is"),
        ("forgotten", 4, None, "2026-11-21", "to a time"),
    ],
)
def test_a_restore_is_refused_and_another_one_mends_it(
    request: pytest.FixtureRequest, log: str, last: int, version: int | None, timestamp: str | None, words: str
) -> None:
    found: Places = request.getfixturevalue(log)
    restore(found, version, timestamp)
    with pytest.raises(TableError, match=words) as refused:
        read_table_state(found, ITEM)
    assert f"RESTORE it to version {last}" in str(refused.value.todo)
    restore(found, last)
    assert read_table_state(found, ITEM).progress.batch == 2


def test_a_commit_while_the_log_is_read_is_no_restore(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    """The log is read after the table: by then it may be a batch ahead."""
    loaded = places.load(ITEM)
    commit(places, 3)
    monkeypatch.setattr(Places, "load", lambda *_: loaded)
    assert read_table_state(places, ITEM).progress.batch == 2


def test_a_column_of_any_name_is_read_beside(places: Places) -> None:
    name = 'a "b"'
    DeltaTable.create(places.of(ITEM, "__changes"), to_delta({name: Type("int")}))
    side_table = DeltaSideTable(places, ITEM, pytest.fail, "__changes", {}, lambda: [name])
    rows = pa.table({name: pa.array([1], pa.int32())})
    deltalake.write_deltalake(str(side_table.folder), rows, mode="append")
    assert side_table.rows("true", [name]).to_pylist() == [{name: 1}]


def test_a_table_that_would_forget_its_batch_is_refused() -> None:
    dimension = Dimension(name=ITEM, schema=Schema((Column("id", Type("int")),)))
    options = TableOptions(properties={"delta.setTransactionRetentionDuration": "interval 7 days"})
    with pytest.raises(ConfigError, match="is not for `properties` to say"):
        check_options(dimension, options)


def forget(places: Places) -> Path:
    log = Path(places.of(ITEM)) / "_delta_log"
    DeltaTable(places.of(ITEM)).create_checkpoint()
    for file in log.glob("*.json"):
        if file.stem.isdigit():
            file.unlink()
    return log


def test_a_commit_that_says_nothing_of_itself_shifts_no_other(places: Places) -> None:
    log = Path(places.of(ITEM)) / "_delta_log"
    (log / f"{3:020}.json").write_text('{"txn":{"appId":"another","version":1}}\n')
    for number in range(4, 30):
        (log / f"{number:020}.json").write_text('{"commitInfo":{"timestamp":1,"operation":"WRITE"}}\n')
    assert read_table_state(places, ITEM).progress.batch == 2
    assert {batch: made.commit for batch, made in commits_of(places, ITEM).items()} == {1: "1", 2: "2"}


def test_a_log_that_forgot_our_commit_and_kept_no_domain_says_so(places: Places) -> None:
    forget(places)
    with pytest.raises(TableError, match="its log does not say how far that is"):
        read_table_state(places, ITEM)


def test_a_checkpoint_of_lines_is_read_as_one_of_columns(places: Places) -> None:
    log = forget(places)
    domain = {"domain": APP, "configuration": Progress(batch=2, rows=7).to_json(), "removed": False}
    lines = [{"protocol": {}}, {"domainMetadata": {**domain, "domain": "another"}}, {"domainMetadata": domain}]
    (log / f"{2:020}.checkpoint.0a1b.json").write_text("\n".join(map(json.dumps, lines)))
    assert read_table_state(places, ITEM).progress == Progress(batch=2, rows=7)


def remembering(places: Places, version: int, batch: int) -> None:
    """Leave a checkpoint that says how far the table was at a version: Spark's has it, that of delta-rs has not."""
    domain = {"domain": APP, "configuration": Progress(batch=batch).to_json(), "removed": False}
    log = Path(places.of(ITEM)) / "_delta_log"
    (log / f"{version:020}.checkpoint.0a1b.json").write_text(json.dumps({"domainMetadata": domain}))


@pytest.fixture
def forgotten(places: Places) -> Places:
    """The same table: its log has forgotten our commits, and others made the versions 3 and 4."""
    log = forget(places)
    for version in (1, 2):
        remembering(places, version, version)
    for version in (3, 4):
        (log / f"{version:020}.json").write_text('{"commitInfo":{"timestamp":1,"operation":"WRITE"}}\n')
    return places


def test_a_restore_to_what_others_made_of_the_last_batch_is_none_of_ours(forgotten: Places) -> None:
    restore(forgotten, 3)
    assert read_table_state(forgotten, ITEM).progress.batch == 2


def test_of_a_restore_that_was_itself_undone_only_the_last_counts(forgotten: Places) -> None:
    restore(forgotten, 1)
    remembering(forgotten, 5, 2)
    restore(forgotten, 5)
    with pytest.raises(TableError, match="to what it was at batch 1"):
        read_table_state(forgotten, ITEM)


def shown(places: Places) -> list[str | None]:
    return [lineage_of(places).commit_showing(batch) for batch in (1, 2, 3)]


def compact(places: Places) -> None:
    DeltaTable(places.of(ITEM)).optimize.compact(max_concurrent_tasks=1)
    DeltaTable(places.of(ITEM)).vacuum(retention_hours=0, dry_run=False, enforce_retention_duration=False)


def test_rows_of_a_commit_whose_files_are_gone_are_those_that_others_made_of_them(places: Places) -> None:
    assert shown(places) == ["1", "2", None]
    compact(places)
    assert lineage_of(places).versions() == []
    [_, rows, _] = shown(places)
    assert rows is not None
    assert sorted(DeltaTable(places.of(ITEM), version=int(rows)).to_pyarrow_table()["id"].to_pylist()) == [1, 2]
    commit(places, 3)
    assert shown(places)[:2] == [None, rows]
    assert [one.progress.batch for one in lineage_of(places).commits()] == [3, 2, 1]


def test_the_commits_of_a_table_that_is_made_anew_have_other_names(places: Places) -> None:
    before = [one.name for one in lineage_of(places).commits()]
    shutil.rmtree(places.of(ITEM))
    make_table(places, 2)
    after = [one.name for one in lineage_of(places).commits()]
    assert len(after) == len(before) == 2
    assert not {*after} & {*before}


def test_a_commit_that_the_log_has_forgotten_is_still_shown(places: Places) -> None:
    table = DeltaTable(places.of(ITEM))
    table.create_checkpoint()
    compact(places)
    for file in sorted((Path(places.of(ITEM)) / "_delta_log").glob("*.json"))[:3]:
        file.unlink()
    assert lineage_of(places).commits() == []
    assert lineage_of(places).commit_showing(2) is not None
