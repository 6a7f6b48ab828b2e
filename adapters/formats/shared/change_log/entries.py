"""The entries of a change log.

Each entry has a kind and the number of a batch. The kinds are the `batch` record; a `delete` or another `change`
that an older event may still meet; the `base` row of a key, before the first of these; an event `waiting` behind a
held key; the note that it was `released`; and the decisions of operators (`ack`, `reload`, `whole`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakeward.adapters.formats.shared.rows.system_columns import system_columns
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Dimension
from lakeward.core.events import Sequences
from lakeward.core.ledger.full_loads import LoadCompletion, ReloadRequest
from lakeward.core.ports import Acknowledgement, OperatorDecision
from lakeward.core.schema import Column, Type

KIND: Final = "_lakeward_kind"
RECORD: Final = "_lakeward_record"
OLD_RECORD: Final = "_lakeward_old_record"
"""`RECORD` is the batch record, or the text of an event's key; `OLD_RECORD` the text of the key that it left."""

BATCH, DELETE, CHANGE, BASE, WAITING, RELEASED = "batch", "delete", "change", "base", "waiting", "released"
DECISIONS: Final[Mapping[str, type[OperatorDecision]]] = {
    "ack": Acknowledgement,
    "reload": ReloadRequest,
    "whole": LoadCompletion,
}
"""The class of an operator decision, by the kind of its entries."""
EVENT: Final = f"CASE {names.OPERATION} WHEN 'delete' THEN '{DELETE}' ELSE '{CHANGE}' END"
"""SQL for the kind of an event that was applied, stale or superseded."""

BY_PLACE: Final = f"bigint(row_number() OVER (ORDER BY {names.OBJECT}, {names.ROW}))"
"""SQL for the arrival of events from several objects."""
PLACE: Final = (names.SEQUENCE, names.OBJECT, names.ROW)
"""The columns of a position within its epoch."""


def columns_of(sequences: Sequences) -> Mapping[str, Type]:
    """Return the columns of a change log besides those of the table."""
    return {
        KIND: Type("string"),
        **system_columns(sequences),
        names.OPERATION: Type("string"),
        names.TIME: Type("bigint"),
        RECORD: Type("string"),
    }


def columns_in_part(dimension: Dimension) -> Mapping[str, Type]:
    """Return the columns for partial events and key changes."""
    key = tuple(column for column in dimension.schema if column.name in dimension.key)
    return {
        names.UNSET: Type("list", parts=(Column("element", Type("string")),)),
        names.OLD: Type("struct", parts=key),
        OLD_RECORD: Type("string"),
        names.TRANSACTION: Type("string"),
    }
