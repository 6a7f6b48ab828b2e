"""What an entry of the companion looks like.

Entries are stamped with a batch and of a kind each: the `batch` record, a `delete` or
another `change` that an older event may still meet, the `base` of a key (its row before the
first of them), an event `waiting` behind a held key, the word that it was `released`, and
the words of an operator (`ack`, `reload`, `whole`).
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
"""The batch record, or the text of an event's key, and of the key that it left."""

BATCH, DELETE, CHANGE, BASE, WAITING, RELEASED = "batch", "delete", "change", "base", "waiting", "released"
WORDS: Final[Mapping[str, type[OperatorDecision]]] = {
    "ack": Acknowledgement,
    "reload": ReloadRequest,
    "whole": LoadCompletion,
}
"""What an operator said, by the kind of its entries."""
EVENT: Final = f"CASE {names.OPERATION} WHEN 'delete' THEN '{DELETE}' ELSE '{CHANGE}' END"
"""The kind of an event that was applied, or overtaken, as SQL."""

BY_PLACE: Final = f"bigint(row_number() OVER (ORDER BY {names.OBJECT}, {names.ROW}))"
"""The arrival of events from several objects, as SQL."""
PLACE: Final = (names.SEQUENCE, names.OBJECT, names.ROW)
"""Where an event is within its epoch."""


def columns_of(sequences: Sequences) -> Mapping[str, Type]:
    """Return the columns of the companion besides those of the table."""
    return {
        KIND: Type("string"),
        **system_columns(sequences),
        names.OPERATION: Type("string"),
        names.TIME: Type("bigint"),
        RECORD: Type("string"),
    }


def columns_in_part(dimension: Dimension) -> Mapping[str, Type]:
    """Return the columns of events that are sent in part, or change their key."""
    key = tuple(column for column in dimension.schema if column.name in dimension.key)
    return {
        names.UNSET: Type("list", parts=(Column("element", Type("string")),)),
        names.OLD: Type("struct", parts=key),
        OLD_RECORD: Type("string"),
        names.TRANSACTION: Type("string"),
    }
