"""A timeline that lies ahead of the clock: nothing is written that would count as earlier than what is there."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from project import Project
from sparkless import no_spark

from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.adapters.formats.hudi.metadata.clock import (
    PATIENCE,
    Clock,
    describe_clock_lag,
    instant_of,
    wait_until_past,
)
from lakeward.adapters.formats.hudi.metadata.timeline import Timeline
from lakeward.adapters.formats.hudi.options import TableOptions
from lakeward.adapters.formats.hudi.table import HudiTable
from lakeward.adapters.formats.shared.storage.folder import DiskFolder
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import TableError
from lakeward.core.schema import Column, Schema, Type

NOW = 1_795_305_603_004_000
BEHIND = "20261122000003003"
AHEAD = "20261122000003005"
FAR = "20261122000203005"


@dataclass
class Watch:
    """A clock that goes by what is waited, and stands while nothing is."""

    at: int = NOW
    goes: bool = True
    waited: list[float] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.waited.append(seconds)
        self.at += round(seconds * 1_000_000) * self.goes

    @property
    def clock(self) -> Clock:
        return Clock(lambda: self.at, self.sleep)


@pytest.fixture
def timeline(tmp_path: Path) -> Callable[..., Timeline]:
    def made(*names: str) -> Timeline:
        folder = tmp_path / ".hoodie" / "timeline"
        folder.mkdir(parents=True)
        for name in names:
            (folder / name).touch()
        return Timeline(DiskFolder(tmp_path))

    return made


@pytest.mark.parametrize(
    ("names", "latest"),
    [
        ((), ""),
        ((f"{BEHIND}_{AHEAD}.deltacommit",), AHEAD),
        ((f"{BEHIND}_{FAR}.commit", f"{AHEAD}_{AHEAD}.deltacommit"), FAR),
        ((f"{BEHIND}_{BEHIND}.commit", f"{AHEAD}.deltacommit.inflight"), AHEAD),
        ((f"{BEHIND}_{BEHIND}.commit", f"{AHEAD}_{FAR}.clean", "x.clean"), FAR),
        (("20261122000003.commit.requested",), "20261122000003999"),
    ],
)
def test_the_latest_time_is_found(timeline: Callable[..., Timeline], names: tuple[str, ...], latest: str) -> None:
    assert timeline(*names).latest() == latest


def test_behind_the_clock_nothing_is_waited_for(timeline: Callable[..., Timeline]) -> None:
    watch = Watch()
    wait_until_past(timeline(f"{BEHIND}_{BEHIND}.commit"), "shop.item", watch.clock)
    assert not watch.waited


@pytest.mark.parametrize("at", [instant_of(NOW), AHEAD, instant_of(NOW + PATIENCE - 1_000)])
def test_a_moment_is_waited_for_until_the_clock_is_past_it(timeline: Callable[..., Timeline], at: str) -> None:
    watch, found = Watch(), timeline(f"{BEHIND}_{at}.deltacommit")
    wait_until_past(found, "shop.item", watch.clock)
    assert instant_of(watch.at) > at
    assert len(watch.waited) == 1
    assert describe_clock_lag(found, Watch().clock) is None


def test_who_would_wait_for_longer_is_told_both_times_and_what_to_do(timeline: Callable[..., Timeline]) -> None:
    watch, found = Watch(), timeline(f"{BEHIND}_{FAR}.deltacommit")
    with pytest.raises(TableError, match=f"{FAR}, and it is {instant_of(NOW)} in UTC") as raised:
        wait_until_past(found, "shop.item", watch.clock)
    assert "Set the clock" in str(raised.value.todo)
    assert not watch.waited
    assert describe_clock_lag(found, watch.clock) == raised.value.found


def test_a_clock_that_goes_back_meanwhile_is_found(timeline: Callable[..., Timeline]) -> None:
    watch = Watch(goes=False)
    with pytest.raises(TableError, match="is behind the table"):
        wait_until_past(timeline(f"{AHEAD}_{AHEAD}.commit"), "shop.item", watch.clock)
    assert len(watch.waited) == 1


def test_whatever_writes_is_alone_only_behind_the_clock(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    dimension = Dimension(name=TableName("shop", "item"), schema=Schema((Column("id", Type("int")),)), key=("id",))

    table = HudiTable(Places("lake", "{schema}", tmp_path), dimension, TableOptions(), no_spark)
    monkeypatch.setattr(HudiTable, "_java_alone", lambda _self: nullcontext())
    monkeypatch.setattr(table, "clock", Watch().clock)
    folder = Path(table.path) / ".hoodie" / "timeline"
    folder.mkdir(parents=True)
    (folder / f"{BEHIND}_{BEHIND}.deltacommit").touch()
    with table.alone():
        pass
    (folder / f"{FAR}_{FAR}.deltacommit").touch()
    with pytest.raises(TableError, match="is behind the table"), table.alone():
        pytest.fail("it may write")


@pytest.mark.spark
@pytest.mark.hudi
def test_a_batch_behind_one_of_a_host_whose_clock_was_ahead_is_not_written(project: Project) -> None:
    """Of a table without a key its rows would be written again with each run."""
    project.kind = "hudi"
    columns = 'id = "int", name = "string", price = "decimal(8,2)"'
    project.configure(f'[tables."shop.item"]\ncolumns = {{ {columns} }}\n', source="max_files = 1")
    project.put("20261121-100000000.csv", "I,1,a,1.00\n")
    project.run()
    folder = project.folder / "lake" / "shop" / "item" / ".hoodie" / "timeline"
    (done,) = folder.glob("*.deltacommit")
    kept = done.name
    done = done.rename(folder / f"{done.name.partition('_')[0]}_29991121110000000.deltacommit")
    project.put("20261121-110000000.csv", "I,2,b,2.00\n")
    before = {file.name for file in folder.iterdir()}
    assert "the clock of this machine is behind the table" in project.fails()
    assert {file.name for file in folder.iterdir()} == before
    done.rename(folder / kept)
    project.run()
    assert [row[0] for row in project.rows()] == [1, 2]
