"""The log of a Delta table in a bucket: what it says of us, and which of its versions are whole; no Spark."""

from __future__ import annotations

import json
from pathlib import Path
from typing import NoReturn
from unittest.mock import MagicMock

import deltalake
import pyarrow as pa
import pytest
from buckets import Buckets
from deltalake import CommitProperties, Transaction

from lakeward.adapters.formats import delta
from lakeward.adapters.formats.delta.metadata.progress import APP, PROGRESS, commits_of, log_of, read_table_state
from lakeward.adapters.formats.delta.operations.adoption import DeltaExternalTable
from lakeward.adapters.formats.delta.operations.rollback import DeltaLineage
from lakeward.adapters.formats.delta_rs.columns import to_delta
from lakeward.adapters.formats.delta_rs.commit_failures import lost_race
from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.adapters.formats.shared.rows.system_columns import SYSTEM_COLUMNS
from lakeward.adapters.formats.shared.storage import bucket
from lakeward.core.dimension import TableName
from lakeward.core.errors import TableError
from lakeward.core.progress import Progress
from lakeward.core.schema import Type
from lakeward.plugins import Runtime

ITEM = TableName("shop", "item")


def no_spark() -> NoReturn:
    raise AssertionError("a look at the log starts no Spark")


@pytest.fixture
def places(s3: Buckets, tmp_path: Path) -> Places:
    """A table of three batches, in the versions 1 to 3; each takes the place of all rows."""
    found = Places(f"s3://{s3.make()}/lake", "{schema}", tmp_path)
    found.create_table(ITEM, "", to_delta({"id": Type("int"), **SYSTEM_COLUMNS}), None, {})
    for batch in (1, 2, 3):
        commit(found, found.open_version(ITEM), batch)
    return found


def commit(places: Places, table: deltalake.DeltaTable, batch: int) -> None:
    said = {"userMetadata": json.dumps({PROGRESS: Progress(batch=batch).to_json()})}
    properties = CommitProperties(custom_metadata=said, app_transactions=[Transaction(APP, batch)])
    rows = pa.Table.from_pylist([{"id": batch}], schema=pa.schema(table.schema().to_arrow()))
    deltalake.write_deltalake(table, rows, mode="overwrite", commit_properties=properties)


def test_the_last_batch_stands_and_a_look_at_it_lists_and_reads_little(s3: Buckets, places: Places) -> None:
    s3.requests.clear()
    assert read_table_state(places, ITEM).progress.batch == 3
    ours = [request for request in s3.requests if "Boto3" in request.agent]
    assert [request.method for request in ours] == ["GET"] * 3, "is there a log, what is in it, its last commit"
    assert {batch: made.commit for batch, made in commits_of(places, ITEM).items()} == {1: "1", 2: "2", 3: "3"}


def test_progress_is_found_in_a_checkpoint_when_the_log_forgot_it(places: Places) -> None:
    places.open_version(ITEM).create_checkpoint()
    log = log_of(places, ITEM)
    for file in log.files():
        if file.name.startswith(f"{0:020}"):
            log.remove(file.name)
    line = DeltaLineage.of(places, ITEM, no_spark)
    assert line is not None
    assert [version.name for version in line.versions()] == ["3"]


def test_a_version_without_a_file_of_its_own_is_none_to_go_back_to(places: Places) -> None:
    (gone,) = places.open_version(ITEM, version=2).file_uris()
    places.at(ITEM).remove(gone.rsplit("/", 1)[1])
    line = DeltaLineage.of(places, ITEM, no_spark)
    assert line is not None
    assert [version.name for version in line.versions()] == ["3", "1"]


def test_of_two_commits_of_delta_rs_the_second_is_refused_by_s3(places: Places) -> None:
    one, other = places.open_version(ITEM), places.open_version(ITEM)
    commit(places, one, 4)
    with pytest.raises(deltalake.exceptions.DeltaError) as failed:
        commit(places, other, 4)
    assert lost_race(failed.value)
    assert places.open_version(ITEM).version() == 4


def test_a_lake_in_a_bucket_is_told_to_spark(s3: Buckets, tmp_path: Path) -> None:
    runtime = Runtime(no_spark, tmp_path)
    delta.build({"warehouse": "s3a://shop-lake/tables/", "tables": {}}, runtime)
    assert runtime.jars == {"delta", "s3"}
    assert runtime.settings["spark.hadoop.fs.s3a.endpoint"] == s3.endpoint
    assert "secret word" not in str(runtime.settings)


def test_of_two_that_would_commit_one_waits(
    places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a bucket, table by table; on a disk the log itself keeps them apart, and nobody waits."""
    monkeypatch.setattr(bucket, "PATIENCE", 0)
    with places.apart(ITEM), places.apart(TableName("shop", "orders")):
        with pytest.raises(TableError, match=r"\.item\.lock") as selection, places.apart(ITEM):
            pytest.fail("two are in it")
        assert "shop.item" in str(selection.value)
    with places.apart(ITEM):
        pass
    on_disk = Places("lake", "{schema}", tmp_path)
    with on_disk.apart(ITEM), on_disk.apart(ITEM):
        assert not list(tmp_path.rglob("*.lock"))


def test_an_adoption_waits_for_who_commits(places: Places, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bucket, "PATIENCE", 0)
    engine = MagicMock()
    theirs = DeltaExternalTable(engine, ITEM, places, places.open_version(ITEM))
    with places.apart(ITEM), pytest.raises(TableError, match="another process is committing"):
        theirs.take_over([], Progress(batch=1))
    assert engine.mock_calls == [], "nothing is committed before"
