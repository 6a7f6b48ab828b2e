"""Replay quarantined rows that show a change of columns, once the table may follow that change."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final

from lakeward.core.dimension import Dimension
from lakeward.core.errors import RepairError
from lakeward.core.events import Operation
from lakeward.core.merge.change_log import Reason
from lakeward.core.ports import Entry
from lakeward.core.schema import UNDECLARED, Column, Schema, Type
from lakeward.core.schema_changes.evolution import Evolution, Kind, Policy, SchemaChange, evolve


def is_as_written(entry: Entry) -> bool:
    """Return True if a row can be applied as written: nobody repaired it, and only its columns were refused."""
    return Reason(entry.reason) is Reason.SCHEMA and entry.repaired is None


def is_readable_again(dimension: Dimension, entry: Entry) -> bool:
    """Return True if a row that nobody repaired may be read again from its text, with the settings of now."""
    finds_row = bool(dimension.key) or entry.operation in (Operation.INSERT.value, Operation.READ.value)
    is_known = entry.operation is not None or Reason(entry.reason) is Reason.OPERATION
    is_alone = is_known and entry.other_key is None
    return entry.repaired is None and Reason(entry.reason) in _READ_AGAIN and is_alone and finds_row


_READ_AGAIN: Final = frozenset({Reason.CAST, Reason.QUALITY, Reason.OPERATION})
"""Reasons that other settings can remove."""


def columns_with(
    dimension: Dimension,
    stored: Schema,
    entries: Iterable[Entry],
    refused_changes: Mapping[int, Sequence[SchemaChange]],
) -> Schema:
    """Return the columns of a table after unrepaired rows are applied to it.

    `refused_changes` are the changes of columns that rows show, by the batch that refused them. For rows that
    are read again, a column that is declared with a wider type becomes wider. Raises RepairError where the settings
    do not let the table follow a change.
    """
    schema = stored
    for entry in entries:
        if entry.repaired is None and not is_as_written(entry):
            schema = with_wider_types(dimension, schema)
        if is_as_written(entry):
            if entry.other_key is not None:
                raise not_as_written(dimension, entry, "it changes its key")
            if not dimension.key and entry.operation == Operation.UPDATE.value:
                raise not_as_written(dimension, entry, "it is an update, and the table has no key")
            schema = _evolution_of_row(dimension, schema, entry, refused_changes.get(entry.batch, ())).schema
    return schema


def with_wider_types(dimension: Dimension, stored: Schema) -> Schema:
    """Return the columns of a table, widened where a wider type is declared and the table may follow."""
    schema = stored
    for column in stored:
        declared = dimension.schema.find(column.name)
        if declared is None or declared.type == column.type:
            continue
        incoming = Schema(tuple(declared if item.name == column.name else item for item in schema))
        evolution = evolve(schema, incoming, dimension.policies, dimension.key)
        if not evolution.refused and all(change.kind is Kind.WIDEN for change in evolution.changes):
            schema = evolution.schema
    return schema


def _evolution_of_row(
    dimension: Dimension, stored: Schema, entry: Entry, changes: Sequence[SchemaChange]
) -> Evolution:
    """Return the evolution of a table that follows the changes of columns of a row."""
    incoming = Type("struct", parts=stored.columns)
    for change in changes:
        column, *within = change.names
        names = [dimension.policies.renames.get(column, column), *within]
        incoming = _with(incoming, names, _type_now(dimension, change))
    evolution = evolve(stored, Schema(incoming.parts), dimension.policies, dimension.key)
    was_narrower = any(change.kind is Kind.NARROW for change in changes)
    refused = [
        c for c in (*evolution.refused, *evolution.quarantined_changes) if c.kind is not Kind.NARROW or was_narrower
    ]
    undeclared = [c for c in evolution.changes if c.after == UNDECLARED]
    # A text cannot say that a field keeps its value.
    incomplete = [c for c in changes if c.kind is Kind.DROP and c.is_nested]
    if unfollowed := [*refused, *undeclared, *incomplete]:
        why = "the table does not follow: " + "; ".join(map(str, unfollowed))
        raise not_as_written(dimension, entry, why, _advice(dimension, refused, undeclared))
    return evolution


def _advice(dimension: Dimension, refused: Iterable[SchemaChange], undeclared: Iterable[SchemaChange]) -> str:
    """Return the settings with which a table follows changes; an empty text where no settings let it follow."""
    kinds = {change.kind for change in refused if _may_be_followed(dimension, change)}
    parts = []
    if kinds:
        policies = " and ".join(f'`{name} = "evolve"`' for name in sorted(kind.value for kind in kinds))
        parts.append(f'Set {policies} under [tables."{dimension.name}".schema].')
    if Kind.NARROW in kinds:
        parts.append("The table keeps its own, wider type then.")
    if names := ", ".join(change.path for change in undeclared):
        parts.append(f'Declare the type of {names} under [tables."{dimension.name}".columns].')
    return " ".join(parts)


def _may_be_followed(dimension: Dimension, change: SchemaChange) -> bool:
    """Return True if a table can follow a change, and a policy alone prevents it."""
    if change.kind in (Kind.RETYPE, Kind.RENAME) or (change.kind is Kind.DROP and change.names[0] in dimension.key):
        return False
    return dimension.policies.of(change.kind, change.names) is not Policy.EVOLVE


def not_as_written(dimension: Dimension, entry: Entry, why: str, advice: str = "") -> RepairError:
    """Return the error for a row that cannot be applied as it was written; `advice` says how it could be."""
    remedy = "fix the row, or discard it (`lakeward quarantine fix`, `discard`)."
    return RepairError(
        f"{dimension.name}: {entry.object}, row {entry.row} cannot be replayed as it was written",
        found=why,
        todo=f"{advice} Else {remedy}" if advice else remedy.capitalize(),
    )


def _type_now(dimension: Dimension, change: SchemaChange) -> Type | None:
    """Return the type that a change brings: the declared one, else that of the object."""
    declared = None if change.is_nested else dimension.schema.find(change.path)
    return change.after if declared is None or change.after is None else declared.type


def _with(of: Type, names: Sequence[str], type_: Type | None) -> Type:
    """Return a type whose part at this path has another type, is added, or (for None) is removed."""
    name, *rest = names
    parts = {part.name: part.type for part in of.parts}
    if rest and name in parts:
        parts[name] = _with(parts[name], rest, type_)
    elif type_ is not None:
        parts[name] = type_
    else:
        parts.pop(name, None)
    return replace(of, parts=tuple(Column(part, part_type) for part, part_type in parts.items()))
