"""Reading files of transactions for all tables: what cannot be read is said, and not for longer than it is so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from java_errors import java_error

from lakeward.adapters.sources.csv.parser import Dialect
from lakeward.adapters.sources.dms.paths.file_names import STANDARD
from lakeward.adapters.sources.dms.transactions import shared_files
from lakeward.adapters.sources.dms.transactions.layout import folder_key
from lakeward.adapters.sources.dms.transactions.shared_files import RETRY_AFTER, SharedFiles
from lakeward.adapters.sources.dms.transactions.staged_tables import StagedTables
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.adapters.sources.landing.places import Place, Places
from lakeward.core.dimension import TableName
from lakeward.core.errors import LakewardError, SourceError, StoreUnreachable
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import ObjectHistory

ITEM = TableName("shop", "item")
FIRST, SECOND = "cdc/CDC_TXN-20261121100000000.csv", "cdc/CDC_TXN-20261121100000001.csv"


@dataclass
class Spark:
    """Reads files as a splitter does, without Spark: each has a row of one table; reading some fails."""

    reads: list[Sequence[str]] = field(default_factory=list)
    failing: dict[str, Exception] = field(default_factory=dict)

    def splitter(self, *_: Any) -> Any:
        return SimpleNamespace(split=self.split, shares=self.shares, unrouted_rows=lambda *_: ())

    def split(self, _base: str, names: Mapping[str, str], target: str, **_: Any) -> None:
        self.reads.append([*names.values()])
        for name in names.values():
            if name in self.failing:
                raise self.failing[name]
        (Path(target) / f"part={folder_key(ITEM)}").mkdir(parents=True)

    def shares(self, _target: str) -> Sequence[tuple[str, TableName, int, int]]:
        return [(name, ITEM, 1, 5) for name in self.reads[-1]]


@dataclass
class Landed:
    """A landing folder with files of transactions, and the clock."""

    shared: SharedFiles
    spark: Spark
    folder: Folder
    now: int = 0

    def listed(self) -> Sequence[SourceObject]:
        found, _ = self.folder.list(ITEM) or ((), ())
        return found

    def take(self, object_history: ObjectHistory | None = None) -> Sequence[str]:
        found = self.shared.select_for_table(ITEM, self.listed(), object_history or ObjectHistory(), has_more=False)
        return [item.name for item in found]

    def refused(self, object_history: ObjectHistory | None = None) -> LakewardError:
        with pytest.raises(LakewardError) as caught:
            self.take(object_history)
        return caught.value


@pytest.fixture
def landed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Landed:
    root, spark = tmp_path / "landing", Spark()
    for name in (FIRST, SECOND):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("I,item,shop,1,a\n", encoding="utf-8")
    monkeypatch.setattr(shared_files, "Splitter", spark.splitter)
    folder, staged = Folder(root, Places(Place(STANDARD, shared="cdc"))), StagedTables(tmp_path / "staged")
    found: Landed
    shared = SharedFiles(folder, staged, lambda: None, Dialect(), (ITEM,), lambda: found.now)  # type: ignore[arg-type,return-value]
    found = Landed(shared, spark, folder)
    return found


def archiving(landed: Landed, tmp_path: Path) -> None:
    landed.shared.folder = replace(landed.folder, archive=tmp_path / "backup")


def test_a_store_that_does_not_answer_is_asked_again_at_the_next_poll(landed: Landed) -> None:
    landed.spark.failing[FIRST] = java_error(
        "java.net.ConnectException", message=f"s3://shop/{FIRST}: connection refused"
    )
    found = landed.refused()
    assert isinstance(found, StoreUnreachable)
    assert found.retryable
    landed.spark.failing.clear()
    assert landed.take() == [FIRST, SECOND]


def test_a_file_that_cannot_be_read_stops_all_from_it_on_and_is_not_read_again_at_each_poll(landed: Landed) -> None:
    landed.spark.failing[SECOND] = java_error("java.io.IOException", message=f"{SECOND}: not in GZIP format")
    assert landed.take() == [FIRST]
    (applied, _) = landed.listed()
    object_history = ObjectHistory(applied={FIRST: applied})
    reads = len(landed.spark.reads)
    assert f"{SECOND} cannot be read" in landed.refused(object_history).what
    assert len(landed.spark.reads) == reads


def test_a_file_that_could_not_be_read_is_looked_at_again_after_a_while(landed: Landed) -> None:
    landed.spark.failing[FIRST] = java_error("java.io.IOException", message="No space left on device")
    assert isinstance(landed.refused(), SourceError)
    landed.spark.failing.clear()
    landed.refused()
    landed.now += RETRY_AFTER
    assert landed.take() == [FIRST, SECOND]


def test_an_error_that_is_raised_again_keeps_nothing_of_the_times_before(landed: Landed) -> None:
    landed.spark.failing[FIRST] = java_error("java.io.IOException", message=f"{FIRST}: not in GZIP format")
    depths = []
    for _ in range(3):
        traceback, depth = landed.refused().__traceback__, 0
        while traceback is not None:
            traceback, depth = traceback.tb_next, depth + 1
        depths.append(depth)
    assert depths[0] == depths[2]


def test_files_archived_before_a_table_was_configured_are_an_error(landed: Landed, tmp_path: Path) -> None:
    archiving(landed, tmp_path)
    assert landed.take() == [FIRST, SECOND]
    (applied, _) = landed.listed()
    away = tmp_path / "backup" / FIRST
    away.parent.mkdir(parents=True)
    (tmp_path / "landing" / FIRST).rename(away)
    assert landed.take(ObjectHistory(applied={FIRST: applied})) == [SECOND], "the table has it"
    landed.shared.staged.set_applied(ITEM, [FIRST], is_applied=False)
    assert FIRST in str(landed.refused().found)
    assert landed.take(ObjectHistory(cut=applied.order)) == [SECOND], "it is of an epoch before"


def test_a_table_made_anew_or_taken_back_is_not_said_to_have_what_it_had(landed: Landed, tmp_path: Path) -> None:
    archiving(landed, tmp_path)
    landed.take(ObjectHistory(has_no_batch=True))
    first, second = sorted(landed.listed(), key=lambda item: item.name)
    assert landed.shared.archive(ITEM, [first, second]) == [FIRST, SECOND]
    seen = {FIRST: first, SECOND: second}
    assert landed.take(ObjectHistory(applied=seen)) == []
    assert landed.take(ObjectHistory()) == [], "nothing is said of what it has"
    assert landed.take(ObjectHistory(applied={SECOND: second}, cut=first.order)) == [], (
        "of an epoch before, by its order"
    )
    assert (
        landed.take(ObjectHistory(applied={SECOND: second}, earlier_versions=frozenset({first.version}))) == []
    ), "or by its version"
    refused = landed.refused(ObjectHistory(has_no_batch=True))
    assert (refused.what.split(": ")[1][:7], FIRST in str(refused.found)) == ("2 files", True)
    assert "reload" not in str(refused.todo), "it has nothing that could be loaded anew"
    assert landed.shared.staged.select_finished([FIRST, SECOND], (ITEM,)) == [], (
        "another table does not put them away"
    )
    assert SECOND in str(landed.refused(ObjectHistory(applied={FIRST: first})).found)
    (tmp_path / "backup" / SECOND).rename(tmp_path / "landing" / SECOND)
    assert landed.take(ObjectHistory(applied={FIRST: first})) == [SECOND]
    assert landed.shared.staged.select_finished([FIRST, SECOND], (ITEM,)) == [FIRST]


def test_a_file_is_read_where_staged_last(landed: Landed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    landed.take()
    (tmp_path / "landing" / FIRST).write_text("I,item,shop,1,a\nU,item,shop,1,b\n", encoding="utf-8")
    landed.take()
    asked: list[Mapping[str, Sequence[str]]] = []
    monkeypatch.setattr(shared_files, "read_parts", lambda _, parts: asked.append(parts))
    landed.shared.rows(ITEM, landed.listed())
    shares, staged = landed.shared.staged.shares(ITEM), landed.shared.staged
    assert asked == [{str(staged.part(shares[name])): [name] for name in (FIRST, SECOND)}]
