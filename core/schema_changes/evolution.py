"""Compare the columns of a source with those of its table, and apply the policies.

Each kind of difference has a policy; `docs/explanation/schema-changes.md` explains them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    RENAME = "rename"


class Policy(Enum):
    """What happens on a schema change.

    The table follows it, ignores it, quarantines the rows that show it, or stops.
    """

    EVOLVE = "evolve"
    IGNORE = "ignore"
    QUARANTINE = "quarantine"
    FAIL = "fail"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policies:
    """The policy for each kind of change of a table's columns. No table follows an incompatible type.

    `paths` has the policies of a column or of a field within one, by its path; they count for everything in it.
    `renames` has the new names of columns by their old ones.
    """

    add: Policy = Policy.EVOLVE
    drop: Policy = Policy.EVOLVE
    widen: Policy = Policy.EVOLVE
    narrow: Policy = Policy.FAIL
    incompatible: Policy = Policy.FAIL
    paths: Mapping[str, Mapping[Kind, Policy]] = field(default_factory=dict, hash=False)
    renames: Mapping[str, str] = field(default_factory=dict, hash=False)

    def of(self, kind: Kind, names: Sequence[str] = ()) -> Policy:
        """Return the policy for a change of this kind of a column or field.

        The policy of the nearest path counts.
        """
        for size in range(len(names), 0, -1):
            policy = self.paths.get(".".join(names[:size]), {}).get(kind)
            if policy is not None:
                return policy
        return self._of_table().get(kind, Policy.FAIL)

    @property
    def may_refuse(self) -> bool:
        """Whether some change quarantines rows."""
        each = (self._of_table(), *self.paths.values())
        return any(Policy.QUARANTINE in policies.values() for policies in each)

    def _of_table(self) -> Mapping[Kind, Policy]:
        return {
            Kind.ADD: self.add,
            Kind.DROP: self.drop,
            Kind.WIDEN: self.widen,
            Kind.NARROW: self.narrow,
            Kind.RETYPE: self.incompatible,
        }


DEFAULT_POLICIES: Final = Policies()
"""The policies of a table without settings for them."""


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """One difference: the column `path` had the type `before` and has the type `after` (None: it does not exist).

    A field within a column has the names of its path, the column's first, in `within`. A renamed column has its new
    name in `to`.
    """

    kind: Kind
    path: str
    before: Type | None
    after: Type | None
    within: tuple[str, ...] = ()
    to: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its path: that of the column, then those of fields."""
        return self.within or (self.path,)

    @property
    def is_nested(self) -> bool:
        """Whether it is a change of a field within a column."""
        return bool(self.within)

    def __str__(self) -> str:
        match self.kind:
            case Kind.ADD:
                return f"column {self.path} ({self.after}) is new"
            case Kind.DROP:
                return f"column {self.path} ({self.before}) is missing"
            case Kind.RENAME:
                return f"column {self.path} is called {self.to} now"
            case _:
                return f"column {self.path} was {self.before} and is {self.after}"


def compare(current: Schema, incoming: Schema) -> tuple[SchemaChange, ...]:
    """Return the changes that turn `current` into `incoming`, path by path. The order of columns does not count."""
    return tuple(_fields(current.columns, incoming.columns, ()))


def _fields(current: Sequence[Column], incoming: Sequence[Column], path: tuple[str, ...]) -> Iterator[SchemaChange]:
    before = {column.name: column.type for column in current}
    after = {column.name: column.type for column in incoming}
    for name, type_ in after.items():
        if name not in before:
            yield _change(Kind.ADD, (*path, name), None, type_)
    for name, type_ in before.items():
        if name not in after:
            yield _change(Kind.DROP, (*path, name), type_, None)
    for name, type_ in before.items():
        if after.get(name, type_) != type_:
            yield from _types(type_, after[name], (*path, name))


def _types(before: Type, after: Type, path: tuple[str, ...]) -> Iterator[SchemaChange]:
    """Compare two different types: field by field where both are of one form. The key of a map never changes."""
    keeps_key = before.name != "map" or before.parts[:1] == after.parts[:1]
    if before.name == after.name and before.is_nested and keeps_key:
        yield from _fields(before.parts, after.parts, path)
    else:
        yield _change(_kind(before, after), path, before, after)


def _change(kind: Kind, path: tuple[str, ...], before: Type | None, after: Type | None) -> SchemaChange:
    return SchemaChange(kind, ".".join(path), before, after, path if len(path) > 1 else ())


_WIDER = {("int", "bigint"), ("float", "double")}


def _kind(before: Type, after: Type) -> Kind:
    if _is_wider(before, after):
        return Kind.WIDEN
    return Kind.NARROW if _is_wider(after, before) else Kind.RETYPE


def _is_wider(narrow: Type, wide: Type) -> bool:
    """Return True if every value of one type is one of the other, and table formats can widen it in place.

    These are the promotions of iceberg.apache.org/spec/#schema-evolution, format 2.
    """
    if narrow.name == wide.name == "decimal":
        return narrow.scale == wide.scale and narrow.precision < wide.precision
    return (narrow.name, wide.name) in _WIDER


@dataclass(frozen=True, slots=True)
class Evolution:
    """The effect of a batch on the columns of a table.

    `schema` are the columns afterwards. `differences` are those between the batch and the table before, each with
    its policy. `refused` are those that no policy allows.
    """

    schema: Schema
    differences: tuple[tuple[SchemaChange, Policy], ...] = ()
    refused: tuple[SchemaChange, ...] = ()

    @property
    def changes(self) -> tuple[SchemaChange, ...]:
        """The differences that the table follows by changing its own columns; renames come first."""
        follows = {Kind.RENAME, Kind.ADD, Kind.WIDEN}
        return tuple(c for c, policy in self.differences if c.kind in follows and policy is Policy.EVOLVE)

    @property
    def added(self) -> tuple[SchemaChange, ...]:
        """The columns and fields that the batch adds."""
        return tuple(change for change in self.changes if change.kind is Kind.ADD)

    @property
    def quarantined_changes(self) -> tuple[SchemaChange, ...]:
        """The differences whose rows are quarantined."""
        return tuple(change for change, policy in self.differences if policy is Policy.QUARANTINE)

    @property
    def absent(self) -> tuple[str, ...]:
        """Columns that the batch lacks: an update keeps their values, an insert or a read has NULL there."""
        return tuple(change.path for change in self._of(Kind.DROP) if not change.is_nested)

    @property
    def lacking(self) -> tuple[tuple[str, ...], ...]:
        """Fields of structs that the batch lacks, by their paths. They are treated like absent columns."""
        return tuple(change.names for change in self._of(Kind.DROP) if change.is_nested)

    @property
    def lacks_columns(self) -> bool:
        """Whether the batch lacks a column or a field of the table."""
        return bool(self.absent or self.lacking)

    @property
    def lacked(self) -> tuple[str, ...]:
        """The names of the absent columns and the paths of the lacking fields."""
        return (*self.absent, *(".".join(path) for path in self.lacking))

    @property
    def ignored(self) -> tuple[str, ...]:
        """Columns and fields of the batch that the table does not store."""
        added = [(c, policy) for c, policy in self.differences if c.kind is Kind.ADD]
        return tuple(change.path for change, policy in added if policy is Policy.IGNORE)

    @property
    def renames(self) -> Mapping[str, str]:
        """The new names of renamed columns, by their old ones."""
        return {change.path: change.to for change in self._of(Kind.RENAME) if change.to is not None}

    def stored_columns(self, incoming: Schema) -> Schema:
        """Return the columns of a batch that the table stores; nested ones are as the table has them."""
        columns, quarantined = [], {change.names[0] for change in self.quarantined_changes}
        for column in incoming:
            stored = self.schema.find(column.name)
            if stored is not None:
                columns.append(stored if stored.type.is_nested or stored.name in quarantined else column)
        return Schema(tuple(columns))

    def _of(self, kind: Kind) -> list[SchemaChange]:
        """Return the differences of a kind, except those whose rows are quarantined."""
        differences = [(change, policy) for change, policy in self.differences if change.kind is kind]
        return [change for change, policy in differences if policy is not Policy.QUARANTINE]


@dataclass(frozen=True, slots=True)
class RecordedChange:
    """A recorded schema change: when (microseconds since 1970), with which object, and its policy.

    The object is empty where the change came with quarantined rows, once the table could follow it.
    """

    at: int
    object: str
    change: SchemaChange
    policy: Policy


def with_new_names(schema: Schema, renames: Mapping[str, str]) -> Schema:
    """Return the columns with their new names. A column whose new name is taken keeps its own."""
    names = _new_names(schema, renames)
    return Schema(tuple(Column(names.get(c.name, c.name), c.type) for c in schema))


def old_names(schema: Schema, renames: Mapping[str, str]) -> Mapping[str, str]:
    """Return the present names of the columns that will be renamed, by their new names."""
    return {new: old for old, new in _new_names(schema, renames).items()}


def _new_names(schema: Schema, renames: Mapping[str, str]) -> Mapping[str, str]:
    """Return the new names of columns by their old ones, for the renames that can be carried out."""
    new_names = [renames[name] for name in schema.names if name in renames]
    return {
        old: new
        for old, new in renames.items()
        if schema.find(old) is not None and schema.find(new) is None and new_names.count(new) == 1
    }


def names_within(old: str, new: str, columns: Sequence[Column]) -> bool:
    """Return True if the old name of a rename is a path within one of these columns, and no column has either name.

    >>> from lakeward.core.schema import parse_type
    >>> names_within("address.city", "town", [Column("address", parse_type("struct<city: string>"))])
    True
    """
    if any(column.name in (old, new) for column in columns):
        return False
    return any(column.type.is_nested and old.startswith(f"{column.name}.") for column in columns)


def evolve(current: Schema, incoming: Schema, policies: Policies, key: Sequence[str] = ()) -> Evolution:
    """Return the effect of a batch's columns on a table's.

    A column of the key cannot be dropped, nor a field within a list or a map, because its old values could not be
    matched to elements. Rows whose key has another type cannot be quarantined: they would hold keys that the table
    cannot have. Renames are applied before the columns are compared.
    """
    renamed, refused = _renames(current, incoming, policies.renames)
    columns = Type("struct", parts=with_new_names(current, policies.renames).columns)
    differences = [(change, Policy.EVOLVE) for change in renamed]
    for change in compare(Schema(columns.parts), incoming):
        policy = policies.of(change.kind, change.names)
        is_drop = change.kind is Kind.DROP
        is_undroppable = is_drop and policy is not Policy.QUARANTINE and not _is_in_structs(columns, change.names)
        is_of_key = change.names[0] in key and (is_drop or policy is Policy.QUARANTINE)
        if policy is Policy.FAIL or is_undroppable or is_of_key:
            refused.append(change)
            continue
        differences.append((change, policy))
        if policy is Policy.EVOLVE and change.kind in (Kind.ADD, Kind.WIDEN) and change.after is not None:
            columns = _with_part(columns, change.names, change.after)
    return Evolution(Schema(columns.parts), tuple(differences), tuple(refused))


def _is_in_structs(of: Type, names: Sequence[str]) -> bool:
    """Return True if a path leads through structs alone."""
    for name in names:
        if of.name != "struct":
            return False
        of = next(part.type for part in of.parts if part.name == name)
    return True


def _renames(
    current: Schema, incoming: Schema, renames: Mapping[str, str]
) -> tuple[list[SchemaChange], list[SchemaChange]]:
    """Return the renames to carry out, and those that are impossible.

    A rename is impossible where its new name is taken, where files still have the old one, or where the old name is
    a field.
    """
    names = _new_names(current, renames)
    possible: list[SchemaChange] = []
    refused: list[SchemaChange] = []
    for old, new in renames.items():
        column, incoming_column = current.find(old), incoming.find(old)
        if column is None and incoming_column is None:
            if names_within(old, new, (*current, *incoming)):
                refused.append(SchemaChange(Kind.RENAME, old, None, None, within=tuple(old.split(".")), to=new))
            continue
        type_ = None if column is None else column.type
        change = SchemaChange(Kind.RENAME, old, type_, type_, to=new)
        (refused if incoming_column is not None or old not in names else possible).append(change)
    return possible, refused


def _with_part(of: Type, names: Sequence[str], type_: Type) -> Type:
    """Return a nested type in which the part with this path has another type, or is added."""
    name, *rest = names
    parts = {part.name: part.type for part in of.parts}
    parts[name] = _with_part(parts[name], rest, type_) if rest else type_
    return replace(of, parts=tuple(Column(part, part_type) for part, part_type in parts.items()))
