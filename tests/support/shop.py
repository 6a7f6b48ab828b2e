"""A shop with changes in memory: a plugin for tests, so that runs need no Spark."""

from __future__ import annotations

from typing import Any

from lakeward.adapters.memory import MemorySource
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import CommitConflict, SourceError
from lakeward.core.events import ChangeEvent, Operation, Position
from lakeward.core.ledger.selection import Limits, ObjectHistory, ObjectSelection
from lakeward.core.merge.change_log import Reason, Reject
from lakeward.core.pipeline.job import Report
from lakeward.plugins import API, Options, Registry, Runtime, hookimpl

LAKEWARD_API = API

SETTINGS = """
    [pipeline]
    name = "shop"
    [source]
    kind = "shop"
    [target]
    kind = "memory"
    [tables."shop.orders"]
    key = ["id"]
    columns = { id = "int", state = "string" }
"""
"""A table with two files of two changes each. Tables named held, broken and raced behave like their names."""

REPORTS: list[Report] = []
"""The arguments of `after_commit`, newest last."""


class ShopSource(MemorySource):
    """Two objects for each table, a batch each."""

    def select_objects(self, dimension: Dimension, object_history: ObjectHistory) -> ObjectSelection:
        """Select the next object, or fail according to the name of the table."""
        match dimension.name.table:
            case "broken":
                raise SourceError("shop.broken: LOAD00000001.csv cannot be read", found="not a gzip file")
            case "raced":
                raise CommitConflict("shop.raced: another writer kept committing")
            case "defect":
                raise ZeroDivisionError("division by zero")
        return super().select_objects(dimension, object_history)


def build(options: Options, runtime: Runtime) -> MemorySource:
    """Make the source, with objects for every table that a test may configure."""
    source = ShopSource(Limits(files=1))
    for table in ("orders", "lines", "held"):
        name = TableName("shop", table)
        for order in (1, 2):
            source.put(name, order, [_event(order, row) for row in (1, 2)])
    source.put(TableName("shop", "held"), 3, [Reject(Position(1, 3, 3, 1), Reason.CAST, ((1,),))])
    spoilt = Reject(Position(1, 1, 1, 3), Reason.CAST, ((1,),))
    source.put(TableName("shop", "spoilt"), 1, [_event(1, 1), _event(1, 2), spoilt])
    return source


def _event(order: int, row: int) -> ChangeEvent:
    operation = Operation.INSERT if order == 1 else Operation.UPDATE
    cells: dict[str, Any] = {"id": row, "state": f"state {order}"}
    return ChangeEvent(operation=operation, position=Position(1, order, order, row), key=(row,), cells=cells)


@hookimpl
def register(registry: Registry) -> None:
    registry.sources.add("shop", build)


@hookimpl
def after_commit(report: Report) -> None:
    """Record the call."""
    REPORTS.append(report)
