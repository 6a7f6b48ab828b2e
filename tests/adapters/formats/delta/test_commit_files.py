"""Which files a log adds and removes, which versions are whole, and what of a log is kept; no Spark."""

from __future__ import annotations

import json
import os
from pathlib import Path

import deltalake
import pyarrow as pa
import pytest
from delta_logs import ITEM, lineage_of, make_table
from deltalake import DeltaTable

from lakeward.adapters.formats.delta.metadata.commit_files import File, changed_by
from lakeward.adapters.formats.delta_rs.columns import to_delta
from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.adapters.formats.delta_rs.version_notes import NOTE, clean_up, noted_versions
from lakeward.adapters.formats.shared.change_log.entries import KIND, RECORD
from lakeward.adapters.formats.shared.storage.folder import DiskFolder
from lakeward.core.errors import TableError
from lakeward.core.schema import Type


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """A table of four batches, in the versions 1 to 4; each replaces all rows."""
    return make_table(Places("lake", "{schema}", tmp_path), 4, "overwrite")


def files_of(places: Places, version: int) -> list[Path]:
    found = DeltaTable(places.of(ITEM), version=version)
    return [Path(places.of(ITEM)) / uri.rsplit("/", 1)[1] for uri in found.file_uris()]


def test_a_deletion_vector_lies_where_the_protocol_says(tmp_path: Path) -> None:
    log = tmp_path / "_delta_log"
    log.mkdir()
    vector = {"storageType": "u", "pathOrInlineDv": "ab^-aqEH.-t@S}K{vb[*k^", "offset": 4}
    inline = {"storageType": "i", "pathOrInlineDv": "wi5b=000010000siXQKl0rr91000f55c8Xg0@@D72lkbi5=-{L"}
    actions = [
        {"commitInfo": {"operation": "DELETE"}},
        {"add": {"path": "a%20b/one.parquet", "deletionVector": vector}},
        {"remove": {"path": "a%20b/one.parquet", "deletionVector": inline}},
        {"remove": {"path": "file:/elsewhere/two.parquet"}},
    ]
    lines = [json.dumps(action, separators=(",", ":")) for action in actions]
    (log / f"{7:020}.json").write_text("".join(f"{line}\n" for line in lines))
    name = "deletion_vector_d2c639aa-8816-431a-aaf6-d3fe2512ff61.bin"
    added, removed = changed_by(DiskFolder(tmp_path), 7)
    assert added == {File(f"{tmp_path}/a b/one.parquet", f"{tmp_path}/ab/{name}")}
    assert removed == {File(f"{tmp_path}/a b/one.parquet", None), File("/elsewhere/two.parquet", None)}


def test_a_version_whose_file_is_missing_cannot_be_rolled_back_to(places: Places) -> None:
    assert [version.name for version in lineage_of(places).versions()] == ["4", "3", "2", "1"]
    (gone,) = files_of(places, 2)
    gone.unlink()
    lineage = lineage_of(places)
    assert [version.name for version in lineage.versions()] == ["4", "3", "1"]
    lineage.check("1")
    with pytest.raises(TableError, match="were removed, by VACUUM"):
        lineage.check("2")


def test_a_version_that_the_log_no_longer_describes_cannot_be_rolled_back_to(places: Places) -> None:
    table = DeltaTable(places.of(ITEM), version=3)
    table.create_checkpoint()
    log = Path(places.of(ITEM)) / "_delta_log"
    (log / f"{0:020}.json").unlink()
    assert [version.name for version in lineage_of(places).versions()] == ["4", "3"]


def test_versions_of_other_writers_have_the_batch_before_them(places: Places) -> None:
    DeltaTable(places.of(ITEM)).alter.set_table_properties({"delta.logRetentionDuration": "interval 60 days"})
    lineage = lineage_of(places)
    found = lineage.find("5")
    assert found is not None
    assert (found.progress.batch, lineage.is_at("5"), lineage.is_at("4")) == (4, True, False)
    assert [lineage.find(name) for name in ("0", "6", "four", "")] == [None] * 4


def test_a_change_log_notes_which_of_its_versions_are_kept(tmp_path: Path) -> None:
    path = str(tmp_path / "beside")
    DeltaTable.create(
        path, to_delta({KIND: Type("string"), "_lakeward_batch": Type("bigint"), RECORD: Type("string")})
    )
    assert noted_versions(DeltaTable(path)) == {}
    rows = {KIND: [NOTE, "batch"], "_lakeward_batch": [32, 40], RECORD: ["17", "{}"]}
    deltalake.write_deltalake(path, pa.table(rows), mode="append")
    assert noted_versions(DeltaTable(path)) == {32: 17}
    other = str(tmp_path / "quarantine")
    DeltaTable.create(other, to_delta({"id": Type("int")}))
    assert noted_versions(DeltaTable(other)) == {}


def test_cleaning_a_log_keeps_noted_versions_and_what_the_last_checkpoint_needs(places: Places) -> None:
    path = places.of(ITEM)
    for version in (2, 4):
        DeltaTable(path, version=version).create_checkpoint()
    log = Path(path) / "_delta_log"
    young = log / f"{1:020}.json"
    for file in log.iterdir():
        if file != young:
            os.utime(file, (file.stat().st_atime, file.stat().st_mtime - 2 * 86_400))
    clean_up(DiskFolder(log), [2])
    left = sorted(int(file.name.split(".")[0]) for file in log.glob("0*"))
    assert left == [1, 2, 2, 4, 4]
    assert DeltaTable(path, version=2).version() == 2
    assert DeltaTable(path).version() == 4
