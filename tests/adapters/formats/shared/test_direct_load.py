"""By which plan the files of a full load may be committed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from lakeward.adapters.formats.shared.operations.direct_load import DirectLoad
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import LOAD_SEQUENCE, Operation, Position
from lakeward.core.merge.facts import BatchFacts
from lakeward.core.plan import MergePlan, plan
from lakeward.core.progress import Progress
from lakeward.core.schema import Column, Schema, Type

SCHEMA = Schema((Column("id", Type("int")),))
PLACE = Position(1, LOAD_SEQUENCE, 0, 0)


def plan_of(rows: int) -> MergePlan:
    """Return the plan of so many rows of a full load, the first batch of its table."""
    dimension = Dimension(name=TableName("shop", "item"), schema=SCHEMA, key=("id",))
    found = BatchFacts(schema=SCHEMA, operations={Operation.READ: rows}, least=PLACE, greatest=PLACE)
    return plan(dimension, found, Progress(), stored=None, capabilities=frozenset())


@pytest.mark.parametrize(
    "change",
    [{"batch": 2}, {"epoch": 2}, {"replaces": True}, {"copies": frozenset({(1, 1)})}, {"folds": True}],
    ids=str,
)
def test_files_are_committed_by_the_plan_that_they_were_written_by_and_by_no_other(change: dict[str, Any]) -> None:
    load = DirectLoad(None, None, None, plan_of(1))  # type: ignore[arg-type]
    assert load.is_by(plan_of(7))
    assert not load.is_by(replace(plan_of(7), **change))
