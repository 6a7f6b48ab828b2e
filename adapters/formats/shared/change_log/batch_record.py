"""The record of a batch as the companion has it: its objects and what it held, in one line of JSON."""

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
    """A batch as its record has it: its objects, what the mark is found from, and how its columns differed.

    `shown` are the changes whose rows went into quarantine, `added` the columns and fields that the table got with
    it. With `spliced` it put a snapshot between others, with `ordered` its table was that, and remembers no more
    of it than what left no row.
    """

    facts: tuple[ObjectFacts, ...]
    record: Record | None
    renames: Mapping[str, str]
    shown: tuple[SchemaChange, ...] = ()
    epoch: int = 1
    spliced: bool = False
    added: Sequence[SchemaChange] = ()
    ordered: bool = False


def written(plan: MergePlan) -> str:
    """Return the record of a batch that was made now."""
    facts, record = plan.facts, plan.record
    content: dict[str, Any] = {
        "objects": [_object(found) for found in facts.objects],
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
    return _line(content)


def _line(content: Mapping[str, Any]) -> str:
    return json.dumps(content, separators=(",", ":"))


def _as_json(change: SchemaChange, policy: Policy) -> list[str | None]:
    """Return a difference for the record of its batch; a rename has names in the place of types.

    That of a field within a column ends with the names that lead to it.
    """
    before, after = _text(change.before), _text(change.after)
    if change.kind is Kind.RENAME:
        before, after = change.path, change.to
    return [change.kind.value, change.path, before, after, policy.value, *change.within]


def difference_of(recorded: Sequence[str | None]) -> tuple[SchemaChange, Policy]:
    """Read a difference as the record of a batch has it."""
    kind, path, before, after, policy, *within = recorded
    if Kind(kind) is Kind.RENAME:
        return SchemaChange(Kind.RENAME, str(path), None, None, to=after), Policy(policy)
    names = tuple(map(str, within))
    return SchemaChange(Kind(kind), str(path), _read(before), _read(after), names), Policy(policy)


def renames_of(content: Mapping[str, Any]) -> Mapping[str, str]:
    """Return the columns that a batch renamed, by their old names, as its record has it."""
    changes = [difference_of(recorded)[0] for recorded in content.get("schema", [])]
    return {change.path: change.to for change in changes if change.to is not None}


def _read(written: str | None) -> Type | None:
    if written == str(UNDECLARED):
        return UNDECLARED
    return None if written is None else parse_type(written)


def _text(type_: Type | None) -> str | None:
    return None if type_ is None else str(type_)


def _object(found: ObjectFacts) -> list[Any]:
    """Return an object for the record of its batch; readers of it take what they know of, from the front."""
    item = found.object
    return [item.name, item.order, item.size, item.modified, found.rows, item.etag, found.least, found.greatest]


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
    """Read an object as the record of its batch has it; earlier versions wrote less of it."""
    first, last = (None if place is None else Position(*place) for place in (least, greatest))
    return ObjectFacts(SourceObject(name, order, size, modified, etag), rows, first, last)


def written_word(word: OperatorDecision) -> str:
    """Return the record of what an operator said."""
    return _line(asdict(word))


def read_word(kind: type[OperatorDecision], line: str) -> OperatorDecision:
    """Read the record of what an operator said."""
    content: dict[str, Any] = json.loads(line)
    if "about" in content:
        content["about"] = tuple(content["about"])
    return kind(**content)


def read(batch: int, line: str) -> BatchRecord:
    """Read the record of a batch; earlier versions wrote less of it."""
    content = json.loads(line)
    facts = tuple(_object_of(*recorded) for recorded in content["objects"])
    return BatchRecord(
        facts,
        None if content.get("least") is None else _record(batch, content, facts),
        renames_of(content),
        _shown(content),
        content.get("epoch", 1),
        content.get("spliced", False),
        _added(content),
        is_ordered(content),
    )


def is_ordered(content: Mapping[str, Any]) -> bool:
    """Whether a batch is of a time when its table was `ordered`, as its record has it."""
    return bool(content.get("ordered", False))


def _record(batch: int, content: Mapping[str, Any], facts: Sequence[ObjectFacts]) -> Record:
    return Record(
        batch,
        frozenset(found.object.order for found in facts),
        Position(*content["least"]),
        Position(*content["greatest"]),
        content["time"],
        frozenset(content.get("loads", ())),
        content.get("loaded", 0),
        tuple(Position(*place) for place in content.get("truncates", ())),
        added=bool(_added(content)),
    )


def _shown(content: Mapping[str, Any]) -> tuple[SchemaChange, ...]:
    found = [difference_of(recorded) for recorded in content.get("schema", [])]
    return tuple(change for change, policy in found if policy is Policy.QUARANTINE)


def _added(content: Mapping[str, Any]) -> tuple[SchemaChange, ...]:
    found = [difference_of(recorded) for recorded in content.get("schema", [])]
    return tuple(change for change, policy in found if (change.kind, policy) == (Kind.ADD, Policy.EVOLVE))
