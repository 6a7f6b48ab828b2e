"""Reloads, snapshots and truncates by an operator, on the memory adapter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from memory_jobs import NAME, READ, UPDATE, MemoryShop, event, item, values

from lakeward.adapters.memory import MemorySource, MemoryStatistics
from lakeward.core.dimension import Dimension, Snapshots, TableName
from lakeward.core.errors import AlarmRaised, ConfigError, SchemaConflict, SourceError
from lakeward.core.events import LOAD_SEQUENCE, Sequences
from lakeward.core.history.options import History
from lakeward.core.ledger.full_loads import LoadStatus
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import Limits
from lakeward.core.operations.reload import complete, plan_reload, record_decision, withdraw
from lakeward.core.operations.truncate import truncate_at
from lakeward.core.pipeline.job import Idle
from lakeward.core.pipeline.preparation import prepare_next_batch

DIMENSION = item()


class Shop(MemoryShop):
    """A table with full loads and changes."""

    def put(self, order: int, rows: Mapping[int, int], modified: int) -> None:
        """Deliver an object; those below 50 are of a full load."""
        sequence, operation = (LOAD_SEQUENCE, READ) if order < 50 else (0, UPDATE)
        events = [
            event(operation, sequence, key, at=order, row=row, a=value)
            for row, (key, value) in enumerate(rows.items(), 1)
        ]
        self.source.put(NAME, order, events, modified=modified)

    def reload(self, **rest: Any) -> Any:
        asked = plan_reload(self.job(), by="me", reason=None, at=self.clock, **rest)
        record_decision(self.job(), asked.request)
        return asked

    @property
    def rows(self) -> dict[Any, Any]:
        return values(self.job(), "a")

    @property
    def awaited(self) -> Any:
        return self.ledger.account(str(NAME)).awaited


@pytest.fixture
def shop() -> Shop:
    made = Shop()
    made.put(1, {1: 1, 2: 2}, 5)
    made.put(60, {1: 10}, 60)
    return made.run()


def test_a_load_is_one_batch_whatever_the_limits_and_its_changes_follow(shop: Shop) -> None:
    shop.reload()
    shop.put(1, {1: 7}, 100)
    shop.put(2, {3: 7}, 101)
    assert (shop.run().rows, shop.awaited.objects) == ({1: 10, 2: 2}, 2)
    assert prepare_next_batch(shop.job()) is Idle.LOADING
    shop.put(110, {3: 8}, 110)
    assert shop.run().rows == {1: 7, 3: 8}
    assert (shop.table.progress.epoch, shop.table.progress.batch, shop.awaited) == (2, 4, None)
    assert shop.run().table.progress.batch == 4


def test_a_requested_load_may_have_another_order_column(shop: Shop) -> None:
    """Stored rows are not compared with it; until it is requested, the table stops."""
    shop.dimension = replace(shop.dimension, sequences=Sequences.PLACES)
    shop.source.order_column = "at"
    fresh = Shop(dimension=shop.dimension, source=shop.source).run()
    fresh.source.order_column = "version"
    with pytest.raises(SchemaConflict):
        fresh.run()
    fresh.reload()
    fresh.put(2, {3: 7}, 2_000)
    fresh.put(110, {3: 8}, 2_001)
    assert (fresh.run().rows, fresh.table.progress.order_by) == ({3: 8}, "version")


def test_changes_before_a_load_are_applied_only_if_an_operator_says_so(shop: Shop) -> None:
    shop.put(70, {2: 70}, 70)
    shop.put(1, {1: 7, 2: 7}, 100)
    shop.put(110, {1: 8}, 110)
    asked = plan_reload(shop.job(), by="me", reason=None, at=1)
    assert [item.order for item in (*asked.load, *asked.before, *asked.after)] == [1, 70, 110]
    assert asked.request.cut == 70
    other = plan_reload(shop.job(), by="me", reason=None, at=1, first="00000070")
    assert [item.order for item in other.after] == [70, 110]
    with pytest.raises(ConfigError, match="no file of its changes"):
        plan_reload(shop.job(), by="me", reason=None, at=1, first="00000001")
    record_decision(shop.job(), asked.request)
    assert shop.run().rows == {1: 8, 2: 7}


def test_applied_changes_behind_the_load_are_applied_again(shop: Shop) -> None:
    shop.put(70, {2: 70}, 70)
    shop.run()
    shop.put(1, {1: 7, 2: 7}, 65)
    shop.reload(first="00000070")
    assert shop.run().rows == {1: 7, 2: 70}


def test_a_reload_is_requested_once_and_can_be_withdrawn(shop: Shop) -> None:
    with pytest.raises(ConfigError, match="does not wait for a reload"):
        withdraw(shop.job(), by="me", reason=None, at=1)
    asked = shop.reload()
    with pytest.raises(ConfigError, match="already"):
        shop.reload()
    shop.put(70, {2: 70}, 70)
    assert shop.run().rows == {1: 10, 2: 2}
    taken_back = withdraw(shop.job(), by="me", reason=None, at=asked.request.at - 1)
    assert taken_back.at > asked.request.at  # whatever the clock says: the last word counts
    assert shop.awaited is None
    assert shop.run().rows == {1: 10, 2: 70}
    shop.clock += 1
    assert shop.reload().request.epoch == 2


def test_an_impossible_reload_or_completion_is_refused(shop: Shop) -> None:
    with pytest.raises(ConfigError, match="nothing was applied"):
        Shop().reload()
    with pytest.raises(ConfigError, match="does not wait"):
        complete(shop.job(), by="me", at=1)
    shop.reload()
    with pytest.raises(ConfigError, match="nothing of the full load"):
        complete(shop.job(), by="me", at=1)


# Snapshots.


@pytest.fixture
def nights() -> Shop:
    made = Shop(replace(DIMENSION, snapshots=Snapshots(settles=10)))
    made.put(1, {1: 1, 2: 2, 3: 3, 4: 4}, 5)
    made.run()
    made.clock += 10
    return made.run()


def night(shop: Shop, rows: Mapping[int, int]) -> Shop:
    shop.clock += 100
    shop.put(1, rows, shop.clock)
    complete(shop.job(), by="me", at=shop.clock)
    return shop.run()


def test_a_snapshot_of_a_history_is_compared_with_its_current_versions() -> None:
    nights = Shop(replace(DIMENSION, snapshots=Snapshots(settles=10), history=History()))
    for a in range(1, 5):
        night(nights, {1: a, 2: a, 3: a, 4: a})
    assert (nights.table.progress.rows, nights.table.progress.current) == (16, 4)
    with pytest.raises(AlarmRaised) as raised:
        night(nights, {1: 9})
    assert raised.value.what == "shop.item: the full load has 1 row, and the table 4"
    night(nights, {1: 9, 2: 9})
    assert (nights.table.progress.rows, nights.table.progress.current) == (18, 2)
    assert night(nights, {1: 9}).table.progress.current == 1


def test_a_table_of_snapshots_refuses_a_reload(nights: Shop) -> None:
    with pytest.raises(ConfigError, match="anyway"):
        nights.reload()


class Archiving(MemorySource):
    def archive(self, dimension: Dimension, objects: Sequence[SourceObject]) -> Sequence[str]:
        names = [item.name for item in objects]
        self.tables[NAME] = [one for one in self.tables[NAME] if one.object.name not in names]
        return names


def dailies(*modified: int, of: type[MemorySource] = MemorySource, settles: int = 10) -> Shop:
    """Deliver snapshots with names of their own, the first with the greatest time: none was written behind it."""
    source = of(Limits(files=1), snapshot=str)
    made = Shop(replace(DIMENSION, snapshots=Snapshots(settles=settles)), source)
    for order, at in enumerate(modified, 1):
        made.put(order, {1: order, 2: order}, at)
    return made


def test_snapshots_that_settled_together_are_applied_in_one_run() -> None:
    days = dailies(30, 20, 10).run()
    days.clock += 9
    assert (days.run().table.progress.batch, days.awaited.objects) == (0, 1)
    days.clock += 1
    assert (days.run().rows, days.table.progress.batch, days.table.progress.epoch) == ({1: 3, 2: 3}, 3, 3)
    assert not days.awaited.is_pending


def test_a_snapshot_behind_settled_ones_must_settle_itself() -> None:
    days = dailies(30, 20).run()
    days.clock += 10
    days.run()
    days.put(3, {1: 3, 2: 3}, 10)
    days.run()
    days.clock += 9
    assert (days.run().rows, days.awaited.objects) == ({1: 2, 2: 2}, 1)
    days.clock += 1
    assert days.run().rows == {1: 3, 2: 3}


def test_with_an_archive_each_snapshot_must_settle_itself() -> None:
    days = dailies(30, 20, 10, of=Archiving).run()
    for batch in (1, 2):
        days.clock += 10
        assert days.run().table.progress.batch == batch
        assert days.run().table.progress.batch == batch


def test_an_alarm_does_not_restart_the_settling_time() -> None:
    days = dailies(30, 20)
    days.put(3, {1: 3}, 10)
    days.put(4, {1: 4, 2: 4}, 5)
    days.run()
    days.clock += 10
    days.dimension = replace(days.dimension, snapshots=Snapshots(settles=10, least_share=0.9))
    days.fails()
    assert days.rows == {1: 2, 2: 2}
    days.ack("LOAD-001")
    assert days.run().rows == {1: 4, 2: 4}


# What the task tells.

S = 1_000_000


def test_a_load_of_fewer_rows_than_its_task_wrote_stops_the_table_until_it_is_acknowledged(nights: Shop) -> None:
    nights.statistics = MemoryStatistics({NAME: LoadStatus(began=90 * S, ended=110 * S, rows=4)})
    nights.put(1, {1: 5, 2: 5, 3: 5}, 100 * S)
    assert nights.fails().code == "LOAD-002"
    assert nights.table.progress.epoch == 1
    with pytest.raises(ConfigError, match="does not stand"):
        nights.ack("LOAD-001")
    nights.ack("LOAD-002")
    assert nights.run().rows == {1: 5, 2: 5, 3: 5}


@pytest.mark.parametrize("rows", [None, 2, 3])
def test_a_load_of_as_many_rows_as_its_task_wrote_is_no_alarm(nights: Shop, rows: int | None) -> None:
    nights.statistics = MemoryStatistics({NAME: LoadStatus(began=90 * S, ended=110 * S, rows=rows)})
    nights.put(1, {1: 5, 2: 5, 3: 5}, 100 * S)
    assert nights.run().rows == {1: 5, 2: 5, 3: 5}


def test_the_status_of_another_load_says_nothing_of_the_number_of_rows(nights: Shop) -> None:
    """An operator declared this load complete; the load status is of the one before."""
    nights.statistics = MemoryStatistics({NAME: LoadStatus(began=1, ended=2 * S, rows=4)})
    nights.put(1, {1: 5, 2: 5, 3: 5}, 100 * S)
    complete(nights.job(), by="me", at=1)
    assert nights.run().rows == {1: 5, 2: 5, 3: 5}


class Unreachable(MemoryStatistics):
    def full_load(self, table: TableName) -> LoadStatus | None:
        raise SourceError(f"{table}: no answer")


def test_a_table_that_waits_for_no_load_does_not_ask_the_task(shop: Shop) -> None:
    shop.statistics = Unreachable()
    shop.put(70, {2: 70}, 70)
    assert shop.run().rows == {1: 10, 2: 70}


def test_decisions_of_an_operator_do_not_ask_the_task_and_a_run_does(shop: Shop) -> None:
    shop.statistics = Unreachable()
    shop.reload()
    shop.put(1, {9: 9}, 100)
    complete(shop.job(), by="me", at=1)
    with pytest.raises(SourceError, match="no answer"):
        shop.run()
    withdraw(shop.job(), by="me", reason=None, at=2)
    assert shop.awaited is None


# Truncates that the source did not write down.


def truncate(shop: Shop, moment: str) -> Any:
    return truncate_at(shop.job(), moment, by="me", reason=None, at=shop.clock)


def test_a_truncate_now_removes_the_applied_rows_and_acknowledges_the_empty_folder(shop: Shop) -> None:
    shop.source.tables[NAME] = []
    shop.fails()
    assert truncate(shop, "now").removed == 2
    assert shop.run().rows == {}
    shop.put(70, {2: 70}, 70)
    assert shop.run().rows == {2: 70}


def test_a_truncate_now_is_refused_while_files_wait(shop: Shop) -> None:
    shop.put(70, {2: 70}, 70)
    with pytest.raises(ConfigError, match="wait"):
        truncate(shop, "now")


def test_a_truncate_before_a_file_keeps_the_rows_of_that_and_later_files(shop: Shop) -> None:
    truncate(shop, "00000060")
    assert shop.rows == {1: 10}
    shop.put(70, {2: 70}, 70)
    truncate(shop, "00000070")
    assert shop.run().rows == {2: 70}


@pytest.mark.parametrize(("moment", "is_gone"), [("now", False), ("now", True), ("00000070", False)])
def test_a_truncate_lists_the_files_of_its_table_once(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, moment: str, is_gone: bool
) -> None:
    listings: list[Any] = []
    take = MemorySource.select_objects

    def listed(self: MemorySource, *arguments: Any) -> Any:
        listings.append(arguments)
        return take(self, *arguments)

    monkeypatch.setattr(MemorySource, "select_objects", listed)
    if moment != "now":
        shop.put(70, {2: 70}, 70)
    if is_gone:
        shop.source.tables[NAME] = []
    truncate(shop, moment)
    assert len(listings) == 1


def test_an_impossible_truncate_is_refused(shop: Shop) -> None:
    for moment in ("yesterday", "2026-11-21T10:00:00Z", "LOAD00000009.csv"):
        with pytest.raises(ConfigError, match="cannot be put"):
            truncate(shop, moment)
    shop.reload()
    with pytest.raises(ConfigError, match="waits for a full load"):
        truncate(shop, "now")
    with pytest.raises(ConfigError, match="nothing was applied"):
        truncate(Shop(), "now")
