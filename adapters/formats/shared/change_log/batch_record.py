"""The record of a batch in the change log: its objects and what it held, as one line of JSON."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lakeward.core.dimension import Ordered
from lakeward.core.events import Position
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.merge.change_log import Record
from lakeward.core.merge.facts import ObjectFacts
from lakeward.core.plan import MergePlan
from lakeward.core.ports import OperatorDecision
from lakeward.core.schema import UNDECLARED, Type, parse_type
from lakeward.core.schema_changes.evolution import Kind, Policy, SchemaChange


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """A batch as its record describes it.

    - `facts`: its objects, with rows and positions.
    - `record`: what the low watermark is computed from; None for a batch without events.
    - `renames`: columns that it renamed, by their old names.
    - `shown`: schema changes whose rows went into quarantine.
    - `epoch`: its epoch.
    - `spliced`: it spliced a snapshot in between others.
    - `added`: columns and fields that the table got with it.
    - `ordered`: the table was `ordered`, so that only events that left no row are remembered of it.
    """

    facts: tuple[ObjectFacts, ...]
    record: Record | None
    renames: Mapping[str, str]
    shown: tuple[SchemaChange, ...] = ()
    epoch: int = 1
    spliced: bool = False
    added: Sequence[SchemaChange] = ()
    ordered: bool = False


def record_text(plan: MergePlan) -> str:
    """Return the record of a batch that is written now."""
    facts, record = plan.facts, plan.record
    content: dict[str, Any] = {
        "objects": [_object(item) for item in facts.objects],
        "operations": {operation.value: count for operation, count in facts.operations.items()},
        "rejects": {reason.value: count for reason, count in facts.rejects.items()},
        "at": time.time_ns() // 1000,
        "epoch": plan.epoch,
        "schema": [_as_json(change, policy) for change, policy in plan.evolution.differences],
    }
    if record is not None:
        content |= {"least": record.least, "greatest": record.greatest, "time": record.time}
        content |= {"loads": sorted(record.loads), "loaded": record.loaded, "truncates": record.truncates}
    if plan.splices is not None:
        content["spliced"] = True
    if isinstance(plan.dimension.lateness, Ordered):
        content["ordered"] = True
    return _to_json(content)


def _to_json(content: Mapping[str, Any]) -> str:
    return json.dumps(content, separators=(",", ":"))


def _as_json(change: SchemaChange, policy: Policy) -> list[str | None]:
    """Return a schema change for a record. A rename has names in the place of types.

    The path of a nested field is at the end.
    """
    before, after = _text(change.before), _text(change.after)
    if change.kind is Kind.RENAME:
        before, after = change.path, change.to
    return [change.kind.value, change.path, before, after, policy.value, *change.within]


def difference_of(recorded: Sequence[str | None]) -> tuple[SchemaChange, Policy]:
    """Read a schema change and its policy from a record."""
    kind, path, before, after, policy, *within = recorded
    if Kind(kind) is Kind.RENAME:
        return SchemaChange(Kind.RENAME, str(path), None, None, to=after), Policy(policy)
    names = tuple(map(str, within))
    return SchemaChange(Kind(kind), str(path), _read(before), _read(after), names), Policy(policy)


def renames_of(content: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the columns that a batch renamed, by their old names, from its record."""
    changes = [difference_of(recorded)[0] for recorded in content.get("schema", [])]
    return {change.path: change.to for change in changes if change.to is not None}


def _read(written: str | None) -> Type | None:
    if written == str(UNDECLARED):
        return UNDECLARED
    return None if written is None else parse_type(written)


def _text(type_: Type | None) -> str | None:
    return None if type_ is None else str(type_)


def _object(facts: ObjectFacts) -> list[Any]:
    """Return an object for a record. Fields are only ever added at the end, so that older readers skip them."""
    item = facts.object
    return [item.name, item.order, item.size, item.modified, facts.rows, item.etag, facts.least, facts.greatest]


def _object_of(
    name: str,
    order: int,
    size: int,
    modified: int,
    rows: int,
    etag: str | None = None,
    least: Sequence[int] | None = None,
    greatest: Sequence[int] | None = None,
    *_: object,
) -> ObjectFacts:
    """Read an object from a record; records of earlier versions have fewer fields."""
    first, last = (None if place is None else Position(*place) for place in (least, greatest))
    return ObjectFacts(SourceObject(name, order, size, modified, etag), rows, first, last)


def decision_text(decision: OperatorDecision) -> str:
    """Return an operator decision as JSON."""
    return _to_json(asdict(decision))


def read_decision(kind: type[OperatorDecision], line: str) -> OperatorDecision:
    """Read an operator decision."""
    content: dict[str, Any] = json.loads(line)
    if "about" in content:
        content["about"] = tuple(content["about"])
    return kind(**content)


def read(batch: int, line: str) -> BatchRecord:
    """Read the record of a batch; records of earlier versions have fewer fields."""
    content = json.loads(line)
    facts = tuple(_object_of(*recorded) for recorded in content["objects"])
    return BatchRecord(
        facts,
        None if content.get("least") is None else _record(batch, content, facts),
        renames_of(content),
        _quarantined_changes(content),
        content.get("epoch", 1),
        content.get("spliced", False),
        _added(content),
        is_ordered(content),
    )


def is_ordered(content: Mapping[str, Any]) -> bool:
    """Return whether the table was `ordered` at a batch, from its record."""
    return bool(content.get("ordered", False))


def _record(batch: int, content: Mapping[str, Any], facts: Sequence[ObjectFacts]) -> Record:
    return Record(
        batch,
        frozenset(item.object.order for item in facts),
        Position(*content["least"]),
        Position(*content["greatest"]),
        content["time"],
        frozenset(content.get("loads", ())),
        content.get("loaded", 0),
        tuple(Position(*place) for place in content.get("truncates", ())),
        added=bool(_added(content)),
    )


def _quarantined_changes(content: Mapping[str, Any]) -> tuple[SchemaChange, ...]:
    differences = [difference_of(recorded) for recorded in content.get("schema", [])]
    return tuple(change for change, policy in differences if policy is Policy.QUARANTINE)


def _added(content: Mapping[str, Any]) -> tuple[SchemaChange, ...]:
    differences = [difference_of(recorded) for recorded in content.get("schema", [])]
    return tuple(change for change, policy in differences if (change.kind, policy) == (Kind.ADD, Policy.EVOLVE))
