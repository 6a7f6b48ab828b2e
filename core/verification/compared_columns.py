"""The columns by which a table is compared with its source, and the types in which they are compared."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from lakeward.core.dimension import Dimension
from lakeward.core.errors import ConfigError
from lakeward.core.history.options import Kind
from lakeward.core.schema import Column, Schema, Type
from lakeward.core.settings.source_catalogue import SourceColumn, SourceTable
from lakeward.core.shaping.column_rules import Rename
from lakeward.core.shaping.shape import Shape

_TIMES: Final = frozenset({"date", "timestamp", "timestamp_ntz"})
_NUMBERS: Final = frozenset({"boolean", "int", "bigint", "float", "double", "decimal"})
_PADDED: Final = frozenset({"char", "character", "bpchar", "nchar"})
"""Types of databases whose texts end in blanks without meaning; some feeds leave these out."""

_REWRITTEN: Final = frozenset({"time", "timetz", "interval", "point", "geometry", "geography", "hstore"})
"""Types of databases whose values Debezium writes as numbers, objects, or texts of its own."""


@dataclass(frozen=True, slots=True)
class ComparedColumn:
    """A column of the table, the column of the source, and the types in which it is read and compared.

    The source is read as `read_as`. Both sides are compared as `type`: that of the table, or float where the source
    has no more digits than that. In a column that `is_padded`, blanks at the end do not count.
    """

    name: str
    source: SourceColumn
    read_as: Type
    type: Type
    is_padded: bool = False


@dataclass(frozen=True, slots=True)
class ComparedColumns:
    """The columns that are compared, the key among them, and the reasons why others are not, by name."""

    columns: Sequence[ComparedColumn] = ()
    key: Sequence[str] = ()
    left_out: Mapping[str, str] = field(default_factory=dict)

    @property
    def of_key(self) -> Sequence[ComparedColumn]:
        """The columns of the key, in its order."""
        by_name = {column.name: column for column in self.columns}
        return [by_name[name] for name in self.key]


def match_columns(
    dimension: Dimension,
    shape: Shape,
    source: SourceTable,
    spelled: Callable[[str], str] = str,
    *,
    is_debezium: bool = False,
) -> ComparedColumns:
    """Return the columns that a table and its source have in common; others are named, with the reason.

    `shape` is what the rules of the table make of the columns that the source delivers; `spelled` turns their names
    at the source into these. `is_debezium` is True where a connector of Debezium wrote the values of the feed.
    Raises ConfigError for a table without a key, and for one whose key the source does not have unchanged.
    """
    if not dimension.key:
        raise ConfigError(
            f"{dimension.name} has no key: its rows cannot be compared one by one",
            todo=f'Name its key under [tables."{dimension.name}"], or name other tables.',
        )
    delivered, named = _source_columns(shape), _by_name(source, dimension, spelled)
    compared, left_out = list[ComparedColumn](), dict[str, str]()
    for column in dimension.schema:
        made_of = delivered.get(column.name) if shape.schema.find(column.name) else column.name
        source_column = None if made_of is None else named.get(made_of) or named.get(made_of.lower())
        reason = _why_not(dimension, column, source_column, is_made=made_of is None)
        if reason is None and is_debezium and source_column is not None and _is_rewritten(column, source_column):
            reason = f"Debezium writes {source_column.written} in a form of its own"
        if source_column is None or reason is not None:
            left_out[column.name] = reason or "the source does not have it"
        else:
            compared.append(_compared_column(column, source_column))
    used = {column.source.name for column in compared}
    extra = [column.name for column in source.columns if column.name not in used and column.name not in left_out]
    left_out |= dict.fromkeys(extra, "the table does not have it")
    _refuse_other_key(dimension, compared, left_out)
    return ComparedColumns(compared, dimension.key, left_out)


def _source_columns(shape: Shape) -> Mapping[str, str]:
    """Return the source column of each column of the table that no rule changes, by name."""
    names = {name: name for name in shape.source.names}
    for step in shape.steps:
        if isinstance(step.rule, Rename):
            if step.rule.column in names:
                names[step.rule.to] = names.pop(step.rule.column)
            continue
        for result in step.results:
            names.pop(result.name, None)
    return names


def _by_name(
    source: SourceTable, dimension: Dimension, spelled: Callable[[str], str]
) -> Mapping[str, SourceColumn]:
    """Return the columns of the source by the names that the table may have for them."""
    renames = dimension.policies.renames
    named: dict[str, SourceColumn] = {}
    for column in source.columns:
        name = spelled(column.name)
        named.setdefault(name.lower(), column)
        named[name] = column
        if name in renames:
            named[renames[name]] = column
    return named


def _why_not(dimension: Dimension, column: Column, source: SourceColumn | None, *, is_made: bool) -> str | None:
    """Return why a column is not compared; None if it is."""
    history = dimension.history
    if is_made:
        return "a rule makes it"
    if source is None:
        return "the source does not have it"
    if history is not None and column.name not in dimension.key and history.kind(column.name) is Kind.KEEP_FIRST:
        return "it keeps its first value"
    if column.type.is_nested:
        return f"it is a {column.type.name}"
    if _read_as(column.type, source) is None:
        return f"it is {source.written} at the source and {column.type} in the table"
    return None


def _is_rewritten(column: Column, source: SourceColumn) -> bool:
    """Return True if the text of a column is not that of its database; array types of PostgreSQL begin with `_`."""
    written = source.written.lower().partition("(")[0].strip()
    return column.type.name == "string" and (written in _REWRITTEN or written.startswith("_"))


def _read_as(type_: Type, source: SourceColumn) -> Type | None:
    """Return the type in which a column of the source is read, None where it cannot be compared."""
    if type_.name == "string":
        return type_
    if source.type is None:
        return type_ if type_.name == "decimal" else None
    source_type, table_type = source.type.name, type_.name
    is_alike = source_type == table_type or any({source_type, table_type} <= kind for kind in (_TIMES, _NUMBERS))
    return source.type if is_alike else None


def _compared_column(column: Column, source: SourceColumn) -> ComparedColumn:
    """Return how a column is compared."""
    is_padded = source.written.lower().partition("(")[0].strip() in _PADDED
    read_as = _read_as(column.type, source) or column.type
    type_ = read_as if (read_as.name, column.type.name) == ("float", "double") else column.type
    return ComparedColumn(column.name, source, read_as, type_, is_padded)


def _refuse_other_key(
    dimension: Dimension, compared: Sequence[ComparedColumn], left_out: Mapping[str, str]
) -> None:
    """Raise ConfigError where a column of the key is not compared."""
    names = {column.name for column in compared}
    for name in dimension.key:
        if name not in names:
            raise ConfigError(
                f"{dimension.name} cannot be compared with its source",
                found=f"{name} of its key is not compared: {left_out.get(name, 'the table does not have it')}",
                todo="Rows are matched by the key: both sides need its values unchanged. Name other tables.",
            )


def source_schema(columns: ComparedColumns) -> Schema:
    """Return the columns to read from the source, by its names and in the types in which they are read."""
    return Schema(tuple(Column(column.source.name, column.read_as) for column in columns.columns))
