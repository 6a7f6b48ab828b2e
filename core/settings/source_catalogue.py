"""Descriptions of the tables of a source by its database, and how they complete the settings.

The settings have precedence: the catalogue fills in what they leave out. Its answers are stored, so that files
which were written before a change are read by the earlier answer.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.core.schema import Column, Schema, Type, find_case_clash
from lakeward.core.schema_changes.evolution import Kind, SchemaChange, compare

KEEP_FOR: Final = 7 * 24 * 3600 * 1_000_000
"""How long an answer is kept after a newer one, in microseconds: older files may still come."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceColumn:
    """A column of a database: `written` is its type there, `type` that of lakeward, None where it has none."""

    name: str
    written: str
    type: Type | None
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceTable:
    """A table of a database: columns in order, and the primary key."""

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
        """Return True if columns, types and key are the same; comments do not count."""
        return _bare(self.table) == _bare(table)


def _bare(table: SourceTable) -> SourceTable:
    """Return a table without comments."""
    return replace(table, comment=None, columns=tuple(replace(column, comment=None) for column in table.columns))


def answers_to_keep(answers: Sequence[Answer], table: SourceTable, now: int) -> tuple[Answer, ...]:
    """Return the answers to keep after a new one, the oldest first."""
    if answers and answers[-1].is_same(table):
        candidates = [*answers[:-1], Answer(answers[-1].since, table)]
    else:
        candidates = [*answers, Answer(now, table)]
    ends = [answer.since for answer in candidates[1:]]
    return tuple(answer for answer, end in zip(candidates, [*ends, now], strict=True) if now - end < KEEP_FOR)


def changes(before: SourceTable, after: SourceTable) -> Sequence[str]:
    """Return in words how a table changed at its source."""
    changed = [str(change) for change in compare(_schema(before), _schema(after))]
    if before.key != after.key:
        changed.append(f"the primary key was {_join_names(before.key)} and is {_join_names(after.key)}")
    return changed


def _schema(table: SourceTable) -> Schema:
    """Return the columns that have a type of lakeward."""
    return Schema(tuple(Column(c.name, c.type) for c in table.columns if c.type is not None))


def _join_names(names: Sequence[str]) -> str:
    """Return names in one line."""
    return ", ".join(names) or "none"


@dataclass(frozen=True, slots=True, kw_only=True)
class CatalogueAnswers:
    """What a command gets from the catalogue: the stored answers for each table, the oldest first.

    `changes` are what is new since the last run, `warnings` what is wrong with the catalogue itself.
    """

    answers: Mapping[TableName, Sequence[Answer]] = field(default_factory=dict)
    changes: Mapping[TableName, Sequence[str]] = field(default_factory=dict)
    warnings: Sequence[str] = ()


NO_ANSWERS: Final = CatalogueAnswers()


@dataclass(frozen=True, slots=True, kw_only=True)
class DeclaredTable:
    """What the settings say of a table of the source: its columns, and those that files leave out.

    `key` has the columns as they are spelled there. `renames` has new names of columns by old ones.
    """

    columns: Schema = field(default_factory=lambda: Schema(()))
    key: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    renames: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class CompletedTable:
    """What settings and catalogue say of a table together.

    `orders` are the columns of files without a header, in order, for each stored answer, the newest first.
    `announced` are columns whose type is only from the catalogue. `key` is the primary key at the source.
    `cautions` say where settings and catalogue disagree.
    """

    schema: Schema
    key: tuple[str, ...] = ()
    orders: tuple[tuple[str, ...], ...] = ()
    announced: frozenset[str] = frozenset()
    cautions: tuple[str, ...] = ()


def complete(declared: DeclaredTable, answers: Sequence[Answer]) -> CompletedTable:
    """Complete the settings of a table; `answers` are the stored ones, the oldest first, at least one.

    Raises ConfigError, naming the column, for a type that lakeward does not have and the settings do not declare.
    """
    tables = [_with_current_names(answer.table, declared) for answer in reversed(answers)]
    newest = tables[0]
    declared_columns = {column.name: column for column in declared.columns}
    schema: dict[str, Column] = {}
    for table in tables:
        for column in table.columns:
            schema.setdefault(column.name, declared_columns.get(column.name) or _typed_column(table, column))
    only_declared = [column for column in declared.columns if column.name not in schema]
    schema.update({column.name: column for column in only_declared})
    orders = dict.fromkeys((*table.names, *[c.name for c in only_declared]) for table in tables)
    if declared_columns.keys() >= {*newest.names}:  # the settings then have the order, too
        schema, orders = {**declared_columns, **schema}, {declared.columns.names: None}
    return CompletedTable(
        schema=Schema(tuple(schema.values())),
        key=newest.key,
        orders=tuple(orders),
        announced=frozenset(schema) - declared_columns.keys(),
        cautions=tuple(_cautions(declared, newest)),
    )


def _with_current_names(table: SourceTable, declared: DeclaredTable) -> SourceTable:
    """Return a table with the names that the settings use, without the columns that files leave out."""
    spelled = {name.lower(): name for name in declared.columns.names}
    spelled |= {name.lower(): name for name in declared.key}
    renames = {old.lower(): new for old, new in declared.renames.items()}
    left_out = {name.lower() for name in declared.left_out}

    def current_name(name: str) -> str:
        name = renames.get(name.lower(), name)
        return spelled.get(name.lower(), name)

    columns = [replace(c, name=current_name(c.name)) for c in table.columns if c.name.lower() not in left_out]
    _refuse_alike(table.name, [column.name for column in columns])
    return replace(table, columns=tuple(columns), key=tuple(current_name(name) for name in table.key))


def _refuse_alike(table: TableName, names: Collection[str]) -> None:
    """Raise ConfigError for two columns that differ only in case."""
    both = find_case_clash(names)
    if both is not None:
        raise ConfigError(
            f"{table}: two columns of the source differ only in case",
            found=f"the catalogue has {both[0]} and {both[1]}",
            todo=f'Let DMS rename one of them, or leave it out: `left_out` under [tables."{table}".catalogue].',
        )


def _typed_column(table: SourceTable, column: SourceColumn) -> Column:
    """Return a column; raises ConfigError where it has no type of lakeward."""
    if column.type is None:
        raise ConfigError(
            f"{table.name}: the column {column.name} has a type of its database that has no type here",
            found=f"the catalogue says {column.written}",
            todo=f'Declare the type that its text has in the files, under [tables."{table.name}".columns] '
            f'(docs/reference/types.md), as {column.name} = "string"; or, where the files do not have the column, '
            f'name it in `left_out` under [tables."{table.name}".catalogue].',
        )
    return Column(column.name, column.type)


def _cautions(declared: DeclaredTable, table: SourceTable) -> Iterator[str]:
    """Yield where settings and catalogue disagree."""
    by_name = {column.name: column for column in table.columns}
    for column in declared.columns:
        described = by_name.get(column.name)
        if described is None:
            yield f"The settings declare the column {column.name}, and the catalogue has none of that name."
        elif described.type is not None and _is_narrower(column, described.type):
            yield (
                f"The column {column.name} is {column.type}, as the settings say, and {described.written} in the "
                "catalogue: values that do not fit go into quarantine."
            )


def key_differs(declared: Sequence[str], primary: Sequence[str]) -> str | None:
    """Return in words that the key of the settings is not the primary key of the source; None if it is."""
    if {*declared} == {*primary}:
        return None
    declared_text = f"the key is {_join_names(declared)}" if declared else "there is no key"
    source_text = f"the primary key {_join_names(primary)}" if primary else "no primary key"
    return f"As the settings say, {declared_text}; the catalogue has {source_text}. The settings count."


def _is_narrower(column: Column, source: Type) -> bool:
    """Return True if a column is narrower than the type at the source."""
    differences: Sequence[SchemaChange] = compare(Schema((column,)), Schema((Column(column.name, source),)))
    return any(change.kind is Kind.WIDEN for change in differences)
