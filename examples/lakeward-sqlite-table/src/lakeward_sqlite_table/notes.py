"""Values of the core as JSON: the notes that a table stores apart from its rows."""

from __future__ import annotations

import json
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import Any, Final

from lakeward.core.events import ChangeEvent, Operation, Position, SourceOrder, Unset
from lakeward.core.ledger.full_loads import LoadCompletion, ReloadRequest
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.merge.change_log import BaseRow, Change, ChangeLogContents, Hold, Reason, Record, Reject
from lakeward.core.merge.counts import Counts
from lakeward.core.merge.delivery import DeliveryResult
from lakeward.core.merge.facts import ObjectFacts
from lakeward.core.merge.fold import Row
from lakeward.core.ports import Acknowledgement, RepairedRow
from lakeward.core.schema import Column, Schema, Type
from lakeward.core.schema_changes.evolution import Kind, SchemaChange

_RECORDS: Final = (
    Acknowledgement,
    BaseRow,
    Change,
    ChangeEvent,
    Column,
    Counts,
    Hold,
    ChangeLogContents,
    RepairedRow,
    ObjectFacts,
    Record,
    Reject,
)
_MORE: Final = (ReloadRequest, Row, Schema, SchemaChange, DeliveryResult, SourceObject, Type, LoadCompletion)
_OTHERS: Final = (Kind, SourceOrder, Operation, Position, Reason, Unset, frozenset, list, tuple)
_KINDS: Final[dict[str, Any]] = {kind.__name__: kind for kind in (*_RECORDS, *_MORE, *_OTHERS)}


def written(value: object) -> str:
    """Return a value as one line of JSON."""
    return json.dumps(_plain(value), separators=(",", ":"))


def read(line: str) -> Any:
    """Return the value that `written` wrote. Fields that this version does not know are left out."""
    return _value(json.loads(line))


def _plain(value: Any) -> Any:
    """Return a value in types of JSON. Everything but numbers and texts is tagged with the name of its class."""
    kind = type(value).__name__
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, Enum):
        return {kind: value.value}
    if is_dataclass(value):
        return {kind: {field.name: _plain(getattr(value, field.name)) for field in fields(value)}}
    if isinstance(value, dict):  # its keys may be more than texts
        return {"dict": [[_plain(name), _plain(item)] for name, item in value.items()]}
    return {kind: [_plain(item) for item in value]}


def _value(plain: Any) -> Any:
    if not isinstance(plain, dict):
        return plain
    ((name, content),) = plain.items()
    if name == "dict":
        return {_value(key): _value(item) for key, item in content}
    kind = _KINDS[name]
    if hasattr(kind, "__dataclass_fields__"):
        known = {field.name for field in fields(kind)}
        return kind(**{field: _value(item) for field, item in content.items() if field in known})
    if issubclass(kind, Enum):
        return kind(content)
    items = [_value(item) for item in content]
    return kind(*items) if hasattr(kind, "_fields") else kind(items)
