"""What bounds a batch: the rows whose place in the order is known."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lakeward.adapters.spark.frames.event_frame import SKIPPED, Group, facts
from lakeward.core.dimension import Dimension, TableName, Within
from lakeward.core.events import LOAD_SEQUENCE, Position
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.merge.change_log import ChangeLogContents, Reason, Record, next_low_watermark
from lakeward.core.plan import MergePlan, plan
from lakeward.core.progress import Progress
from lakeward.plugins.testing.simulated_database import SCHEMA

DIMENSION = Dimension(name=TableName("shop", "item"), schema=SCHEMA, key=("id",), lateness=Within(24))


USUAL: dict[str, Any] = {"flags": frozenset(), "rows": 1, "earliest": None, "log": None, "key_bounds": (None,)}


def group(number: int, reason: str | None, sequence: int, time: int | None = None) -> Group:
    operation = "update" if reason is None else None
    place = {"least": (sequence, 1), "greatest": (sequence, 1)}
    return Group(object=number, operation=operation, reason=reason, time=time, **place, **USUAL)


def planned(number: int, groups: list[Group], progress: Progress, records: list[Record]) -> MergePlan:
    found = facts(groups, DIMENSION, SCHEMA, [SourceObject(str(number), number, 1, 0)], 1)
    found = replace(found, loaded=1)
    return plan(DIMENSION, found, progress, stored=SCHEMA, capabilities=frozenset(), records=records)


@pytest.mark.parametrize("reason", [SKIPPED, Reason.UNREADABLE.value, Reason.SEQUENCE.value])
def test_a_row_of_unknown_place_in_each_file_keeps_no_mark_back(reason: str) -> None:
    progress, records = Progress(), list[Record]()
    for hour in range(1, 101):
        odd = group(hour, reason, LOAD_SEQUENCE)
        done = planned(hour, [group(hour, None, hour, hour), odd], progress, records)
        assert not done.recalls
        assert done.record is not None
        assert not done.record.loads
        records.append(done.record)
        mark = next_low_watermark(
            ChangeLogContents(records=records, low_watermark=progress.low_watermark, loaded=1), DIMENSION.lateness
        )
        progress = replace(progress, batch=hour, low_watermark=mark, high_watermark=Position(1, hour, hour, 1))
    assert progress.low_watermark == (1, 75)


@pytest.mark.parametrize(("reason", "loads"), [(Reason.UNREADABLE, set()), (Reason.CAST, {1})])
def test_rows_of_a_full_load_are_one_if_their_place_is_known(reason: Reason, loads: set[int]) -> None:
    done = planned(1, [group(1, reason.value, LOAD_SEQUENCE)], Progress(), [])
    assert done.record is not None
    assert {*done.record.loads} == loads
