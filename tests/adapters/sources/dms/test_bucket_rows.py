"""Rows of files of transactions that wait in a bucket: an index says whose they are, and what is of no use goes."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from buckets import Buckets

from lakeward.adapters.sources.csv.parser import Dialect
from lakeward.adapters.sources.dms.paths.file_names import STANDARD
from lakeward.adapters.sources.dms.transactions import shared_files
from lakeward.adapters.sources.dms.transactions.layout import folder_key
from lakeward.adapters.sources.dms.transactions.shared_files import SharedFiles
from lakeward.adapters.sources.dms.transactions.staged_rows import BucketRows
from lakeward.adapters.sources.dms.transactions.staged_tables import StagedTables
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.adapters.sources.landing.places import Place, Places
from lakeward.adapters.sources.staging.prefix import StagingPrefix
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError, SourceError
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import ObjectHistory

ITEM, ORDERS = TableName("shop", "item"), TableName("shop", "orders")
FIRST, SECOND = "cdc/CDC_TXN-20261121100000000.csv", "cdc/CDC_TXN-20261121100000001.csv"
FOREIGN = "staging/other.txt"


@dataclass
class Landed:
    """Two files of transactions on a disk, each with rows of two tables, which a splitter stages in a bucket."""

    s3: Buckets
    bucket: str
    folder: Path
    fails: bool = False
    reads: list[Mapping[str, str]] = field(default_factory=list)

    def open(self, state: str = "state") -> SharedFiles:
        """Open what reads them as a process does; the state may be that of another machine."""
        prefix = StagingPrefix(f"s3://{self.bucket}/staging/shop/dms", self.s3.client)
        staged = StagedTables(self.folder / state, BucketRows(prefix))
        folder = Folder(self.folder / "landing", Places(Place(STANDARD, shared="cdc")))
        return SharedFiles(folder, staged, lambda: None, Dialect(), (ITEM, ORDERS), lambda: 0)  # type: ignore[arg-type,return-value]

    def splitter(self, *_: Any) -> Any:
        return SimpleNamespace(split=self.split, shares=self.shares, unrouted_rows=lambda *_: ())

    def split(self, _base: str, names: Mapping[str, str], target: str, **_: Any) -> None:
        self.reads.append(names)
        for table in (ITEM, ORDERS):
            self.s3.put(f"{target}/part={folder_key(table)}/0.parquet", "rows")
        if self.fails:
            raise SourceError("it cannot be read")

    def shares(self, _target: str) -> list[tuple[str, TableName, int, int]]:
        return [(name, table, 1, 5) for name in self.reads[-1].values() for table in (ITEM, ORDERS)]

    def take(
        self, shared: SharedFiles, table: TableName = ITEM, object_history: ObjectHistory | None = None
    ) -> list[SourceObject]:
        listed, _ = shared.folder.list(table) or ((), ())
        return [*shared.select_for_table(table, listed, object_history or ObjectHistory(), has_more=False)]

    def parts(self) -> list[str]:
        """Return the tables of which rows wait, place by place; what is of somebody else is there always."""
        found = self.s3.keys(self.bucket)
        assert FOREIGN in found
        of = {f"part={folder_key(table)}": table.table for table in (ITEM, ORDERS)}
        return [of[key.split("/")[4]] for key in found if key != FOREIGN]


@pytest.fixture
def landed(tmp_path: Path, s3: Buckets, monkeypatch: pytest.MonkeyPatch) -> Landed:
    found = Landed(s3, s3.make(), tmp_path)
    s3.put(f"s3://{found.bucket}/{FOREIGN}", "of somebody else")
    for name in (FIRST, SECOND):
        (tmp_path / "landing" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "landing" / name).write_text("I,item,shop,1,a\n", encoding="utf-8")
    monkeypatch.setattr(shared_files, "Splitter", found.splitter)
    return found


def later(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + seconds)


def test_rows_wait_in_the_bucket_until_tables_have_them(landed: Landed, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = landed.open()
    items = landed.take(shared)
    assert [item.name for item in items] == [FIRST, SECOND]
    assert landed.parts() == sorted(["item", "orders"], key=lambda name: folder_key(TableName("shop", name)))
    asked: list[Any] = []
    monkeypatch.setattr(shared_files, "read_parts", lambda _, parts: asked.append(parts))
    shared.rows(ITEM, items)
    ((path, names),) = asked[0].items()
    assert path.startswith(f"s3://{landed.bucket}/staging/shop/dms/")
    assert path.endswith(f"/part={folder_key(ITEM)}")
    assert names == [FIRST, SECOND]
    shared.archive(ITEM, items)
    assert landed.parts() == ["orders"]
    shared.archive(ORDERS, items)
    assert (landed.parts(), len(landed.reads)) == ([], 1)
    assert [file.name for file in (landed.folder / "state").iterdir()] == ["index.db"], "no row is here"


def test_rows_that_are_gone_are_read_again(landed: Landed, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = landed.open()
    items = landed.take(shared)
    for key in landed.s3.keys(landed.bucket):
        if key != FOREIGN:
            landed.s3.client.delete_object(Bucket=landed.bucket, Key=key)
    monkeypatch.setattr(shared_files, "read_parts", lambda _, parts: parts)
    shared.rows(ITEM, items)
    assert (len(landed.reads), sorted(landed.parts())) == (2, ["item", "orders"])


def test_what_a_failed_read_has_written_goes_at_once(landed: Landed) -> None:
    landed.fails = True
    with pytest.raises(SourceError, match="it cannot be read"):
        landed.take(landed.open())
    assert landed.parts() == []


def test_files_are_not_split_beside_rows_of_a_failed_split(landed: Landed, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second split, which knows of torn rows, would double those of the first."""
    shared, split = landed.open(), landed.split

    def torn(base: str, names: Mapping[str, str], target: str, **said: Any) -> None:
        split(base, names, target, **said)
        landed.s3.put(f"{target}/part=torn/0.parquet", "rows")

    monkeypatch.setattr(landed, "split", torn)
    errors = [{"Key": "staging/shop/dms/1/part=torn/0.parquet", "Code": "AccessDenied", "Message": "no"}]
    with monkeypatch.context() as patched:
        patched.setattr(landed.s3.client, "delete_objects", lambda **_: {"Errors": errors})
        with pytest.raises(ConfigError, match="access is denied"):
            landed.take(shared)
    assert len(landed.reads) == 1


def test_rows_of_another_machine_are_removed_after_a_day(landed: Landed, monkeypatch: pytest.MonkeyPatch) -> None:
    landed.take(landed.open("of-another"))
    shared = landed.open()
    shared.archive(ITEM, items := landed.take(shared))
    shared.archive(ORDERS, items)
    assert sorted(landed.parts()) == ["item", "orders"]
    assert landed.open().clean(is_dry=False) == []
    later(monkeypatch, 25 * 3600)
    (place,) = landed.open().clean(is_dry=True)
    assert place.startswith(f"s3://{landed.bucket}/staging/shop/dms/")
    assert sorted(landed.parts()) == ["item", "orders"]
    shared.staged.remove_unneeded([ITEM, ORDERS])
    assert landed.parts() == []


def test_rows_that_wait_for_longer_than_a_day_stay(landed: Landed, monkeypatch: pytest.MonkeyPatch) -> None:
    shared = landed.open()
    landed.take(shared)
    later(monkeypatch, 25 * 3600)
    assert landed.open().clean(is_dry=False) == []
    assert sorted(landed.parts()) == ["item", "orders"]
