"""The log of a Delta table in a bucket: what it says of us, and which of its versions are whole; no Spark."""

from __future__ import annotations

from pathlib import Path
from unittest.mock import MagicMock

import deltalake
import pytest
from buckets import Buckets
from delta_logs import ITEM, commit, make_table, no_spark

from lakeward.adapters.formats import delta
from lakeward.adapters.formats.delta.metadata.progress import commits_of, read_table_state
from lakeward.adapters.formats.delta.operations.adoption import DeltaExternalTable
from lakeward.adapters.formats.delta_rs.commit_failures import lost_race
from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.adapters.formats.shared.storage import bucket
from lakeward.core.dimension import TableName
from lakeward.core.errors import TableError
from lakeward.core.progress import Progress
from lakeward.plugins import Runtime


@pytest.fixture
def places(s3: Buckets, tmp_path: Path) -> Places:
    """A table of three batches, in the versions 1 to 3; each replaces all rows."""
    return make_table(Places(f"s3://{s3.make()}/lake", "{schema}", tmp_path), 3, "overwrite")


def test_the_last_batch_stands_and_a_look_at_it_lists_and_reads_little(s3: Buckets, places: Places) -> None:
    s3.requests.clear()
    assert read_table_state(places, ITEM).progress.batch == 3
    ours = [request for request in s3.requests if "Boto3" in request.agent]
    assert [request.method for request in ours] == ["GET"] * 3, "is there a log, what is in it, its last commit"
    assert {batch: made.commit for batch, made in commits_of(places, ITEM).items()} == {1: "1", 2: "2", 3: "3"}


def test_of_two_commits_of_delta_rs_the_second_is_refused_by_s3(places: Places) -> None:
    one, other = places.open_version(ITEM), places.open_version(ITEM)
    commit(places, 4, one)
    with pytest.raises(deltalake.exceptions.DeltaError) as failed:
        commit(places, 4, other)
    assert lost_race(failed.value)
    assert places.open_version(ITEM).version() == 4


def test_a_lake_in_a_bucket_is_told_to_spark(s3: Buckets, tmp_path: Path) -> None:
    runtime = Runtime(no_spark, tmp_path)
    delta.build({"warehouse": "s3a://shop-lake/tables/", "tables": {}}, runtime)
    assert runtime.jars == {"delta", "s3"}
    assert runtime.settings["spark.hadoop.fs.s3a.endpoint"] == s3.endpoint
    assert "secret word" not in str(runtime.settings)


def test_one_of_two_commits_waits(places: Places, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
