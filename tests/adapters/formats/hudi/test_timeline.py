"""The timeline of a Hudi table, as its files have it."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hudi_files import commit_metadata

from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.adapters.formats.hudi.metadata.columns import META_COLUMNS
from lakeward.adapters.formats.hudi.metadata.progress import commits_of, read_table_state
from lakeward.adapters.formats.hudi.metadata.timeline import PROGRESS, Timeline
from lakeward.adapters.formats.hudi.operations.rollback import HudiLineage
from lakeward.adapters.formats.shared.rows.system_columns import SYSTEM_COLUMNS
from lakeward.adapters.formats.shared.storage.folder import DiskFolder
from lakeward.core.dimension import TableName
from lakeward.core.errors import TableError
from lakeward.core.progress import Progress

TABLE = TableName("shop", "item")
COLUMNS = json.dumps(
    {
        "type": "record",
        "name": "r",
        "fields": [{"name": name, "type": "long"} for name in ("id", *META_COLUMNS, *SYSTEM_COLUMNS)],
    }
)


def instant(number: int) -> str:
    return f"202611220000{number:02}000"


def extra_metadata(batch: int | None = None) -> bytes:
    extra: dict[str, Any] = {"schema": COLUMNS}
    if batch is not None:
        extra[PROGRESS] = Progress(batch=batch).to_json()
    return commit_metadata(extraMetadata=extra)


@pytest.fixture
def places(tmp_path: Path) -> Places:
    return Places("lake", "{schema}", tmp_path)


def folder(places: Places) -> Path:
    found = Path(places.of(TABLE)) / ".hoodie" / "timeline"
    (found / "history").mkdir(parents=True, exist_ok=True)
    return found


def complete(places: Places, number: int, batch: int | None, action: str = "deltacommit", by: int = 0) -> None:
    (folder(places) / f"{instant(number)}_{instant(by or number)}.{action}").write_bytes(extra_metadata(batch))


def archive(places: Places, version: int, files: dict[str, list[tuple[int, int | None]]]) -> None:
    for name, instants in files.items():
        rows = [
            {
                "instantTime": instant(n),
                "completionTime": instant(n),
                "action": "commit",
                "metadata": None if batch == 0 else extra_metadata(batch),
            }
            for n, batch in instants
        ]
        pq.write_table(pa.Table.from_pylist(rows), folder(places) / "history" / name)
    listed = json.dumps({"files": [{"fileName": name, "fileLen": 1} for name in files]})
    (folder(places) / "history" / f"manifest_{version}").write_text(listed, "utf-8")


def test_a_table_that_does_not_exist_has_no_progress(places: Places) -> None:
    assert read_table_state(places, TABLE) == read_table_state(places, TableName("a", "b"))
    assert read_table_state(places, TABLE).schema is None
    assert not Timeline(places.at(TABLE)).is_there


def test_compactions_and_other_writers_hide_no_progress(places: Places) -> None:
    complete(places, 1, 1)
    complete(places, 3, 2)
    complete(places, 4, None, "commit")
    complete(places, 5, None, "replacecommit")
    found = read_table_state(places, TABLE)
    assert found.progress == Progress(batch=2)
    assert found.schema is not None
    assert found.schema.names == ("id",)
    assert found.committed == 1_795_305_603_000_000


def test_writes_that_were_not_completed_do_not_count(places: Places) -> None:
    complete(places, 1, 1)
    for name in (f"{instant(2)}.deltacommit.requested", f"{instant(2)}.deltacommit.inflight", "x.clean"):
        (folder(places) / name).touch()
    newest = Timeline(places.at(TABLE)).newest()
    assert newest is not None
    assert newest.requested == instant(1)


def test_the_order_is_that_of_completion(places: Places) -> None:
    complete(places, 1, None, "commit", by=9)  # a compaction that took long
    complete(places, 2, 7, by=3)
    newest = Timeline(places.at(TABLE)).newest()
    assert newest is not None
    assert (newest.requested, newest.completed) == (instant(1), instant(9))
    assert Timeline(places.at(TABLE)).greatest() == instant(2)
    assert read_table_state(places, TABLE).progress.batch == 7


def test_progress_is_found_in_the_archive_by_its_newest_manifest(places: Places) -> None:
    archive(places, 9, {"a.parquet": [(1, 1), (2, None)]})
    archive(places, 10, {"a.parquet": [(1, 1), (2, None)], "b.parquet": [(3, 2), (4, 0)]})
    complete(places, 5, None)
    assert read_table_state(places, TABLE).progress.batch == 2
    assert {batch: made.commit for batch, made in commits_of(places, TABLE).items()} == {
        1: instant(1),
        2: instant(3),
    }


def test_a_manifest_that_is_being_written_is_none_yet(places: Places) -> None:
    archive(places, 7, {"a.parquet": [(1, 1)]})
    (folder(places) / "history" / "manifest_8.0b1c").write_text("{", "utf-8")
    assert read_table_state(places, TABLE).progress.batch == 1


def test_an_archive_that_is_not_there_is_an_error(places: Places) -> None:
    archive(places, 7, {"a.parquet": [(1, 1)]})
    (folder(places) / "history" / "a.parquet").unlink()
    with pytest.raises(TableError, match=r"cannot be read: .*a\.parquet"):
        read_table_state(places, TABLE)


def test_an_instant_that_is_being_archived_counts_once(places: Places) -> None:
    archive(places, 1, {"a.parquet": [(1, 1)]})
    complete(places, 1, 1)
    assert [found.requested for found in Timeline(places.at(TABLE)).instants()] == [instant(1)]


def test_a_timeline_that_cannot_be_read_is_an_error(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_folder: DiskFolder, name: str) -> NoReturn:
        raise PermissionError(name)

    complete(places, 1, 1)
    monkeypatch.setattr(DiskFolder, "open", fails)
    with pytest.raises(TableError, match="cannot be read"):
        read_table_state(places, TABLE)


def line(places: Places, readable_from: int = 0) -> HudiLineage:
    """Return the writes of a table, whose files are there from an instant on."""
    timeline = Timeline(places.at(TABLE))
    table: Any = SimpleNamespace(timeline=timeline)
    return HudiLineage(table, list(timeline.active()), instant(readable_from))


@pytest.mark.parametrize(
    ("readable_from", "shown"),
    [(0, [1, 2, None]), (2, [None, 2, None]), (3, [None, 4, None]), (4, [None, 4, None]), (9, [None, 4, None])],
)
def test_missing_files_are_those_of_others(places: Places, readable_from: int, shown: list[int | None]) -> None:
    for number, batch in ((1, 1), (2, 2), (3, None), (4, None)):
        complete(places, number, batch)
    found = line(places, readable_from)
    assert [found.commit_showing(batch) for batch in (1, 2, 3)] == [one and instant(one) for one in shown]
    assert [(one.name, one.progress.batch) for one in found.commits()] == [(instant(2), 2), (instant(1), 1)]


def test_a_commit_that_is_in_the_archive_is_where_the_table_stands(places: Places) -> None:
    archive(places, 1, {"a.parquet": [(1, 1), (2, 2)]})
    complete(places, 3, None)
    found = line(places)
    assert [(one.name, one.progress.batch) for one in found.commits()] == [(instant(2), 2)]
    assert found.commit_showing(2) == instant(3)
