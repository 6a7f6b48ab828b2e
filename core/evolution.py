"""How the columns of a source and of its table differ, and what becomes of it.

Each kind of difference has a policy; `docs/schema-changes.md` says what it does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from lakeward.core.schema import Column, Schema, Type


class Kind(Enum):
    """How a column differs between two schemas."""

    ADD = "add"
    DROP = "drop"
    WIDEN = "widen"
    NARROW = "narrow"
    RETYPE = "incompatible"


class Policy(Enum):
    """What becomes of a schema change: the table follows, or does as if it were not there, or stops."""

    EVOLVE = "evolve"
    IGNORE = "ignore"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """What becomes of each kind of change of a table's columns; an incompatible type always stops it."""

    add: Policy = Policy.EVOLVE
    drop: Policy = Policy.EVOLVE
    widen: Policy = Policy.EVOLVE
    narrow: Policy = Policy.FAIL

    def of(self, kind: Kind) -> Policy:
        """Return what becomes of a change of that kind."""
        policies = {Kind.ADD: self.add, Kind.DROP: self.drop, Kind.WIDEN: self.widen, Kind.NARROW: self.narrow}
        return policies.get(kind, Policy.FAIL)


FOLLOWING: Final = Policies()
"""The policies of a table whose settings say nothing of them."""


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """One difference: column `path` was `before` and is `after` (None where it is not there)."""

    kind: Kind
    path: str
    before: Type | None
    after: Type | None

    def __str__(self) -> str:
        match self.kind:
            case Kind.ADD:
                return f"column {self.path} ({self.after}) is new"
            case Kind.DROP:
                return f"column {self.path} ({self.before}) is missing"
            case _:
                return f"column {self.path} was {self.before} and is {self.after}"


def compare(current: Schema, incoming: Schema) -> tuple[SchemaChange, ...]:
    """Return what must change for `current` to become `incoming`; order does not count."""
    before = {column.name: column.type for column in current}
    after = {column.name: column.type for column in incoming}
    added = [SchemaChange(Kind.ADD, name, None, type_) for name, type_ in after.items() if name not in before]
    dropped = [SchemaChange(Kind.DROP, name, type_, None) for name, type_ in before.items() if name not in after]
    retyped = [
        SchemaChange(_kind(type_, after[name]), name, type_, after[name])
        for name, type_ in before.items()
        if name in after and after[name] != type_
    ]
    return (*added, *dropped, *retyped)


_WIDER = {("int", "bigint"), ("float", "double")}


def _kind(before: Type, after: Type) -> Kind:
    if _is_wider(before, after):
        return Kind.WIDEN
    return Kind.NARROW if _is_wider(after, before) else Kind.RETYPE


def _is_wider(narrow: Type, wide: Type) -> bool:
    """Whether every value of one type is one of the other, in a manner that table formats can follow in place.

    Those are the promotions of iceberg.apache.org/spec/#schema-evolution, format 2.
    """
    if narrow.name == wide.name == "decimal":
        return narrow.scale == wide.scale and narrow.precision < wide.precision
    return (narrow.name, wide.name) in _WIDER


@dataclass(frozen=True, slots=True)
class Evolution:
    """What a batch makes of the columns of a table.

    `schema` are those it has afterwards; `differences` is how the batch's columns differ from
    those it had, each with its policy; `refused` are those that no policy allows.
    """

    schema: Schema
    differences: tuple[tuple[SchemaChange, Policy], ...] = ()
    refused: tuple[SchemaChange, ...] = ()

    @property
    def changes(self) -> tuple[SchemaChange, ...]:
        """The differences that the table follows by changing its own columns."""
        return tuple(change for change in self._of(Kind.ADD, Kind.WIDEN) if change.path not in self.ignored)

    @property
    def absent(self) -> tuple[str, ...]:
        """Columns that the batch has not: they keep their values on an update, and are NULL on an insert."""
        return tuple(change.path for change in self._of(Kind.DROP))

    @property
    def ignored(self) -> tuple[str, ...]:
        """Columns of the batch that the table does not take."""
        return tuple(change.path for change in self._of(Kind.ADD) if self.schema.find(change.path) is None)

    def _of(self, *kinds: Kind) -> list[SchemaChange]:
        return [change for change, _ in self.differences if change.kind in kinds]


@dataclass(frozen=True, slots=True)
class Recorded:
    """A difference as it is remembered: since when (microseconds since 1970), with which object, its policy."""

    at: int
    object: str
    change: SchemaChange
    policy: Policy


def evolve(current: Schema, incoming: Schema, policies: Policies, key: Sequence[str] = ()) -> Evolution:
    """Return what becomes of a table's columns under a batch's; a column of the key cannot go."""
    columns = {column.name: column.type for column in current}
    differences, refused = [], []
    for change in compare(current, incoming):
        policy = policies.of(change.kind)
        if policy is Policy.FAIL or (change.kind is Kind.DROP and change.path in key):
            refused.append(change)
            continue
        differences.append((change, policy))
        follows = policy is Policy.EVOLVE and change.kind in (Kind.ADD, Kind.WIDEN)
        if follows and change.after is not None:
            columns[change.path] = change.after
    schema = Schema(tuple(Column(name, type_) for name, type_ in columns.items()))
    return Evolution(schema, tuple(differences), tuple(refused))
