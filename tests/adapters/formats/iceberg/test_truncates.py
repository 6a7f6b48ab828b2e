"""What a truncate does to the files of a table."""

from __future__ import annotations

from dataclasses import replace

import pytest
from iceberg_lake import LakeOfIceberg
from pyiceberg.table import Table
from spark import MakeLake

from lakeward.adapters.formats.iceberg.options import TableOptions
from lakeward.core.dimension import Dimension, Unbounded, Within
from lakeward.core.events import LOAD_SEQUENCE, ChangeEvent, Operation, Position
from lakeward.core.merge.change_log import Reason, Reject
from lakeward.plugins.testing.player import MemoryLake, Player
from lakeward.plugins.testing.scripts import NAME, PACKED, TOLERANT, Script

pytestmark = pytest.mark.spark

DIMENSION = Dimension(name=NAME, schema=PACKED, key=("h", "id"), lateness=Within(9))
LAYOUTS = [TableOptions(), TableOptions(write_mode="copy-on-write"), TableOptions(format_version=3)]


def row(operation: Operation, sequence: int, number: int, key: int) -> ChangeEvent:
    time = None if sequence == LOAD_SEQUENCE else sequence
    cells = {"h": 0, "id": key, "a": sequence % 100, "b": key}
    place = Position(1, sequence, number, key)
    return ChangeEvent(operation=operation, position=place, key=(0, key), cells=cells, time=time)


def truncate(sequence: int, number: int) -> ChangeEvent:
    return ChangeEvent(operation=Operation.TRUNCATE, position=Position(1, sequence, number, 1), time=sequence)


def table_after(lake: LakeOfIceberg, *deliveries: list[ChangeEvent]) -> Table:
    """Deliver a batch each, and return the table; its rows are what the model makes of them."""
    script = Script(DIMENSION, deliveries, [event for delivery in deliveries for event in delivery])
    assert Player(script, lake).play().moments[-1].rows == script.truth
    table = lake.lake.catalog.load(NAME)
    assert table is not None
    return table


@pytest.mark.parametrize("options", LAYOUTS, ids=str)
def test_files_that_lie_below_it_are_dropped_whole(make_lake: MakeLake, options: TableOptions) -> None:
    load = [row(Operation.READ, LOAD_SEQUENCE, 1, key) for key in (1, 2, 3)]
    changes = [row(Operation.UPDATE, 2, 2, 2), row(Operation.INSERT, 5, 2, 4)]
    table = table_after(make_lake(options), load, changes, [truncate(3, 3), row(Operation.INSERT, 6, 3, 5)])
    snapshot = table.current_snapshot()
    assert snapshot is not None
    assert snapshot.summary is not None
    told = snapshot.summary.additional_properties
    is_rewritten = options.write_mode == "copy-on-write"
    assert told["deleted-data-files"] == ("2" if is_rewritten else "1"), (
        "the load is gone, the changes stay in part"
    )
    assert told.get("added-position-deletes", "0") == ("0" if is_rewritten else "1")
    assert len(list(table.scan().plan_files())) == 2


@pytest.mark.long
def test_what_waits_behind_a_key_change_that_it_lets_pass_passes_too(make_lake: MakeLake) -> None:
    dimension = replace(DIMENSION, lateness=Unbounded(), tolerance=TOLERANT)
    first, last = row(Operation.INSERT, 1, 1, 1), row(Operation.INSERT, 20, 9, 9)
    moved = replace(row(Operation.UPDATE, 5, 3, 3), old_key=(0, 2), transaction=5)
    behind = replace(row(Operation.UPDATE, 7, 3, 3), position=Position(1, 7, 3, 4), transaction=7)
    held = [Reject(Position(1, at, 3, key), Reason.CAST, ((0, key),), at, at) for at, key in ((2, 2), (8, 5))]
    deliveries = [[first], [*held, moved, behind], [truncate(3, 2)], [last]]
    script = Script(dimension, deliveries, [first, truncate(3, 2), moved, behind, last], in_part=True)
    right = Player(script, MemoryLake()).play()
    assert [moment.progress.counts.released for moment in right.moments] == [0, 0, 2, 0, 0]
    Player(script, make_lake(), expected=right.moments).play()
