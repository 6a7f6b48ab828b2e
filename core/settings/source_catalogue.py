"""What the database of a source says of its tables, and what that adds to the settings.

The settings count more: the catalogue fills in what they leave out. Its answers are
recorded, so that files which were written before a change are known by an earlier one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.core.schema import Column, Schema, Type, alike
from lakeward.core.schema_changes.evolution import Kind, SchemaChange, compare

KEPT: Final = 7 * 24 * 3600 * 1_000_000
"""How long an answer is remembered once another took its place: files that were written before may still come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceColumn:
    """A column as its database has it: `written` is the type in its words, `type` ours where one holds it."""

    name: str
    written: str
    type: Type | None
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTable:
    """A table as its database has it: columns in order, and the primary key."""

    name: TableName
    columns: tuple[SourceColumn, ...]
    key: tuple[str, ...] = ()
    comment: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, in order."""
        return tuple(column.name for column in self.columns)


@dataclass(frozen=True, slots=True)
class Answer:
    """What the catalogue said of a table, and since when, in microseconds since 1970."""

    since: int
    table: SourceTable

    def is_same(self, table: SourceTable) -> bool:
        """Whether columns, types and key are the same; comments are no part of it."""
        return _bare(self.table) == _bare(table)


def _bare(table: SourceTable) -> SourceTable:
    return replace(table, comment=None, columns=tuple(replace(column, comment=None) for column in table.columns))


def remembered(answers: Sequence[Answer], found: SourceTable, now: int) -> tuple[Answer, ...]:
    """Return the answers to remember once this one was given, the oldest first."""
    if answers and answers[-1].is_same(found):
        known = [*answers[:-1], Answer(answers[-1].since, found)]
    else:
        known = [*answers, Answer(now, found)]
    ends = [answer.since for answer in known[1:]]
    return tuple(answer for answer, end in zip(known, [*ends, now], strict=True) if now - end < KEPT)


def changes(before: SourceTable, after: SourceTable) -> Sequence[str]:
    """Return in words how a table changed at its source."""
    found = [str(change) for change in compare(_schema(before), _schema(after))]
    if before.key != after.key:
        found.append(f"the primary key was {_listed(before.key)} and is {_listed(after.key)}")
    return found


def _schema(table: SourceTable) -> Schema:
    """Return the columns that have a type here."""
    return Schema(tuple(Column(c.name, c.type) for c in table.columns if c.type is not None))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names) or "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class Said:
    """What the catalogue says to a command: the answers that are remembered of each table, the oldest first.

    `changes` are what is new since the last run, `warnings` what is wrong with the catalogue itself.
    """

    answers: Mapping[TableName, Sequence[Answer]] = field(default_factory=dict)
    changes: Mapping[TableName, Sequence[str]] = field(default_factory=dict)
    warnings: Sequence[str] = ()


NOTHING_SAID: Final = Said()


@dataclass(frozen=True, slots=True, kw_only=True)
class Declared:
    """What the settings say of a table of the source: its columns, and those that files leave out.

    `key` are columns as they are spelled there, and `renames` says by old names what columns are called now.
    """

    columns: Schema = field(default_factory=lambda: Schema(()))
    key: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    renames: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Completed:
    """What settings and catalogue say of a table together.

    `orders` are the columns that files without a header have, in order, by each answer that
    is remembered, the last one first. `announced` are columns whose type only the catalogue
    says. `key` is the primary key at the source; `cautions` are what the two do not agree on.
    """

    schema: Schema
    key: tuple[str, ...] = ()
    orders: tuple[tuple[str, ...], ...] = ()
    announced: frozenset[str] = frozenset()
    cautions: tuple[str, ...] = ()


def complete(declared: Declared, answers: Sequence[Answer]) -> Completed:
    """Fill in what the settings leave out; `answers` are those remembered, the oldest first, one at least.

    Raises ConfigError, naming the column, for a type that has none here and that the settings do not say.
    """
    tables = [_called_now(answer.table, declared) for answer in reversed(answers)]
    last = tables[0]
    own = {column.name: column for column in declared.columns}
    schema: dict[str, Column] = {}
    for table in tables:
        for column in table.columns:
            schema.setdefault(column.name, own.get(column.name) or _typed(table, column))
    of_settings = [column for column in declared.columns if column.name not in schema]
    schema.update({column.name: column for column in of_settings})
    orders = dict.fromkeys((*table.names, *[c.name for c in of_settings]) for table in tables)
    if own.keys() >= {*last.names}:  # then the settings say the order, too
        schema, orders = {**own, **schema}, {declared.columns.names: None}
    return Completed(
        schema=Schema(tuple(schema.values())),
        key=last.key,
        orders=tuple(orders),
        announced=frozenset(schema) - own.keys(),
        cautions=tuple(_cautions(declared, last)),
    )


def _called_now(table: SourceTable, declared: Declared) -> SourceTable:
    """Return a table by the names that the settings use, without the columns that files leave out."""
    spelled = {name.lower(): name for name in declared.columns.names}
    spelled |= {name.lower(): name for name in declared.key}
    renames = {old.lower(): new for old, new in declared.renames.items()}
    gone = {name.lower() for name in declared.left_out}

    def now(name: str) -> str:
        name = renames.get(name.lower(), name)
        return spelled.get(name.lower(), name)

    columns = [replace(c, name=now(c.name)) for c in table.columns if c.name.lower() not in gone]
    _refuse_alike(table.name, [column.name for column in columns])
    return replace(table, columns=tuple(columns), key=tuple(now(name) for name in table.key))


def _refuse_alike(table: TableName, names: Collection[str]) -> None:
    both = alike(names)
    if both is not None:
        raise ConfigError(
            f"{table}: two columns of the source differ only in case",
            found=f"the catalogue has {both[0]} and {both[1]}",
            todo=f'Let DMS rename one of them, or leave it out: `left_out` under [tables."{table}".catalogue].',
        )


def _typed(table: SourceTable, column: SourceColumn) -> Column:
    if column.type is None:
        raise ConfigError(
            f"{table.name}: the column {column.name} has a type of its database that has no type here",
            found=f"the catalogue says {column.written}",
            todo=f'Declare the type that its text has in the files, under [tables."{table.name}".columns] '
            f'(docs/reference/types.md), as {column.name} = "string"; or, where the files do not have the column, '
            f'name it in `left_out` under [tables."{table.name}".catalogue].',
        )
    return Column(column.name, column.type)


def _cautions(declared: Declared, table: SourceTable) -> Iterator[str]:
    """Yield what settings and catalogue do not agree on."""
    has = {column.name: column for column in table.columns}
    for column in declared.columns:
        other = has.get(column.name)
        if other is None:
            yield f"The settings declare the column {column.name}, and the catalogue has none of that name."
        elif other.type is not None and _is_narrower(column, other.type):
            yield (
                f"The column {column.name} is {column.type}, as the settings say, and {other.written} in the "
                "catalogue: values that do not fit go into quarantine."
            )


def key_differs(own: Sequence[str], primary: Sequence[str]) -> str | None:
    """Say that the key of the settings, by its columns at the source, is not the primary key there."""
    if {*own} == {*primary}:
        return None
    said = f"the key is {_listed(own)}" if own else "there is no key"
    has = f"the primary key {_listed(primary)}" if primary else "no primary key"
    return f"As the settings say, {said}; the catalogue has {has}. The settings count."


def _is_narrower(column: Column, source: Type) -> bool:
    found: Sequence[SchemaChange] = compare(Schema((column,)), Schema((Column(column.name, source),)))
    return any(change.kind is Kind.WIDEN for change in found)
