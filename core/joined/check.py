"""Check that a declared joined table can be made of the existing tables."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from lakeward.core.dimension import Dimension, TableName
from lakeward.core.events import Sequences
from lakeward.core.joined.aggregates import type_of
from lakeward.core.joined.check_history import check_history
from lakeward.core.joined.check_lookup import check_lookup
from lakeward.core.joined.declaration import Aggregate, Function, Joined, JoinType, Source
from lakeward.core.joined.errors import column_type, declaration_error, list_names
from lakeward.core.joined.joining import Joining, link_columns
from lakeward.core.schema import Column, Schema, Type
from lakeward.core.shaping.shape import SYSTEM_PREFIX
from lakeward.core.text.suggestions import nearest
from lakeward.core.text.values import MISFIT, from_text

INTEGERS = ("int", "bigint")


def validate_joined(joined: Joined, tables: Mapping[TableName, Dimension]) -> Joining:
    """Return a declaration with the tables that it names, which must have their stored columns.

    Raises ConfigError where it does not fit them.
    """
    if not joined.sources:
        raise declaration_error(joined, "it has no source", "Name the table of whose keys it has a row each.")
    if joined.name in tables:
        raise declaration_error(joined, "a table that a source feeds has its name", "Give it a name of its own.")
    of = {name: _table(joined, name, source, tables) for name, source in joined.sources.items()}
    for name, source in joined.sources.items():
        _check_link(joined, name, source, of)
        check_lookup(joined, name, source, of)
        _check_columns(joined, name, source, of[name])
    columns = [one for name in joined.sources for one in _columns(joined, name, of[name])]
    _check_names(joined, columns)
    _check_defaults(joined, columns)
    dimension = Dimension(
        name=joined.name,
        schema=Schema(tuple(columns)),
        key=_key(joined, of[joined.driving]),
        sequences=Sequences.ARRIVAL,
        history=joined.history,
    )
    _check_unknown(joined, dimension)
    check_history(joined, of, dimension)
    return Joining(joined=joined, tables=of, dimension=dimension)


def _table(joined: Joined, name: str, source: Source, tables: Mapping[TableName, Dimension]) -> Dimension:
    found = tables.get(source.table)
    if found is None:
        there = ", ".join(sorted(map(str, tables))) or "none"
        raise declaration_error(
            joined, f"{name} is made of {source.table}, which is no table here", f"There are: {there}."
        )
    check_key(joined, found)
    if found.history is not None and found.history.known:
        why = f"{source.table} also has versions that are not believed any more (`known`)"
        raise declaration_error(joined, why, "Such a history cannot be joined yet: keep it without.")
    return found


def check_key(joined: Joined, table: Dimension) -> None:
    """Raise ConfigError where a source has no key. This is known without its columns."""
    if not table.key:
        raise declaration_error(joined, f"{table.name} has no key", "Name the columns of its key, or leave it out.")


def _check_link(joined: Joined, name: str, source: Source, of: Mapping[str, Dimension]) -> None:
    """Refuse a source that is joined to no earlier one, by other types, or so that it may give several rows."""
    for word, columns in (("on", source.on), ("to", source.to)):
        if len({*columns}) < len(columns):
            raise declaration_error(
                joined, f"{name} is joined {word} {list_names(columns)}", "Name each column once."
            )
    _check_exists(joined, name, of[name], source.on)
    if name != joined.driving:
        _check_parent(joined, name, source, of)
    elif source.to or source.beside or source.at:
        raise declaration_error(joined, f"{name} drives, and is joined to another", "The others are joined to it.")
    elif source.way is JoinType.INNER:
        todo = "Each of its keys has a row, unless another source is joined so: say it there."
        raise declaration_error(joined, f'{name} drives, and has `way = "inner"`', todo)
    if not source.aggregates and not set(of[name].key) <= set(link_columns(joined, name, of[name])):
        raise declaration_error(
            joined,
            f"{name} may have several rows for one {list_names(source.on)}: its key is {list_names(of[name].key)}",
            "Join it on its key, or say what is made of its rows: an aggregate such as latest.",
        )


def _check_parent(joined: Joined, name: str, source: Source, of: Mapping[str, Dimension]) -> None:
    parent, names = joined.parent(name), tuple(of)
    if parent not in names[: names.index(name)]:
        raise declaration_error(
            joined, f"{name} is joined to {parent}, which is no source before it", "Change their order."
        )
    if not source.on or len(source.on) != len(source.to):
        found = f"{name} is joined on {list_names(source.on)} to {list_names(source.to)}"
        raise declaration_error(joined, found, "Name as many columns of the one as of the other.")
    asked = (*source.to, *([] if source.at is None else [source.at]))
    _check_exists(joined, parent, of[parent], asked)
    for own, other in zip(source.on, source.to, strict=True):
        one, two = column_type(of[name], own), column_type(of[parent], other)
        if one.is_nested or not (one.name == two.name or {one.name, two.name} <= set(INTEGERS)):
            found = f"{name}.{own} is {one.with_article}, {parent}.{other} {two.with_article}"
            raise declaration_error(
                joined, found, "Give one of them the type of the other, with a rule of its table (cast)."
            )
    grouped = joined.sources[parent]
    if grouped.aggregates and not set(asked) <= set(grouped.on):
        found = f"{name} is joined to {list_names(asked)}, and several rows of {parent} make one"
        raise declaration_error(
            joined, found, f"It can be joined to what those are equal in: {list_names(grouped.on)}."
        )


def _check_columns(joined: Joined, name: str, source: Source, table: Dimension) -> None:
    """Refuse columns that do not exist, and columns of grouped rows without an aggregate."""
    _check_not_derived(joined, name, source, table)
    _check_exists(joined, name, _selectable(source, table), source.columns.values())
    for aggregate in source.aggregates.values():
        _check_aggregate(joined, name, aggregate, table)
    if source.aggregates and (loose := sorted(set(source.columns.values()) - set(source.on))):
        found = f"of {name} {list_names(loose)} is taken, and several rows of it make one"
        raise declaration_error(joined, found, "Say which value is meant, with an aggregate such as latest.")
    if source.validity is not None:
        _check_exists(joined, name, table, [source.validity])


def _check_not_derived(joined: Joined, name: str, source: Source, table: Dimension) -> None:
    """Refuse columns that the history of a source derives: they do not show how a row was at each instant."""
    made = set(table.stored.schema.names) - set(_selectable(source, table).schema.names)
    if selection := sorted(made & set(source.columns.values())):
        found = f"of {name} {list_names(selection)} is taken, which its history adds"
        todo = "Take columns that feed it: a joined history has kinds of its own. Or look versions up (`at`)."
        raise declaration_error(joined, found, todo)


def _check_aggregate(joined: Joined, name: str, aggregate: Aggregate, table: Dimension) -> None:
    function, column, by = aggregate.function, aggregate.column, aggregate.by
    if (column is None and function is not Function.COUNT) or (by is None) == (function is Function.LATEST):
        wanted = {Function.LATEST: "a column and the one that it goes by", Function.COUNT: "a column, or nothing"}
        raise declaration_error(
            joined,
            f"{function.value} of {name} is given {list_names([one for one in (column, by) if one])}",
            f"It takes {wanted.get(function, 'a column')}.",
        )
    _check_exists(joined, name, table, [one for one in (column, by) if one])
    if column is not None and type_of(aggregate, column_type(table, column)) is None:
        found = f"{function.value} of {name}.{column}, which is {column_type(table, column).with_article}"
        todo = "Sums are made of whole numbers and decimals: cast it to a decimal. Nested values have no order."
        raise declaration_error(joined, found, todo)
    if by is not None and column_type(table, by).is_nested:
        raise declaration_error(
            joined, f"{name}.{by} is {column_type(table, by).with_article}", "Nested values have no order."
        )


def _check_exists(joined: Joined, name: str, table: Dimension, columns: Iterable[str]) -> None:
    if unknown := sorted(set(columns) - set(table.schema.names)):
        near = nearest(unknown[0], table.schema.names) or f"It has {list_names(table.schema.names)}."
        raise declaration_error(joined, f"{name} has no column {list_names(unknown)}", near)


def _selectable(source: Source, table: Dimension) -> Dimension:
    """Return a table with the columns that can be selected.

    A looked-up version also has those that its history adds.
    """
    return table if source.at is None else table.stored


def _columns(joined: Joined, name: str, table: Dimension) -> Iterable[Column]:
    source = joined.sources[name]
    for own, column in source.columns.items():
        yield Column(own, column_type(_selectable(source, table), column))
    for own, aggregate in source.aggregates.items():
        of = Type("bigint") if aggregate.column is None else column_type(table, aggregate.column)
        yield Column(own, type_of(aggregate, of) or of)


def _key(joined: Joined, table: Dimension) -> tuple[str, ...]:
    """Return the key columns of the joined table."""
    driving = joined.sources[joined.driving]
    names = {column: own for own, column in reversed([*driving.columns.items()])}
    key = link_columns(joined, joined.driving, table)
    if missing := [column for column in key if column not in names]:
        found = f"{list_names(missing)} of {joined.driving} is not among its columns"
        raise declaration_error(joined, found, "Rows are told apart by it: take it, under any name.")
    return tuple(names[column] for column in key)


def _check_names(joined: Joined, columns: Sequence[Column]) -> None:
    names = [column.name.lower() for column in columns]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise declaration_error(joined, f"two columns {list_names(twice)}", "Give one of them another name.")
    if selection := [name for name in names if name.startswith(SYSTEM_PREFIX)]:
        raise declaration_error(
            joined,
            f"a column {list_names(selection)}",
            f"Names that begin with {SYSTEM_PREFIX} are lakeward's own.",
        )


def _check_defaults(joined: Joined, columns: Sequence[Column]) -> None:
    """Refuse default texts for a source that always finds a row or is grouped, and for unknown columns."""
    types = {column.name: column.type for column in columns}
    for name, source in joined.sources.items():
        if source.otherwise and (name == joined.driving or source.way is JoinType.INNER or source.aggregates):
            found = f"{name} says what there is otherwise, and no row finds none of it, or several rows make one"
            raise declaration_error(
                joined, found, 'It is for a source that is joined to another, `way = "left"`, on its key.'
            )
        if strange := sorted(set(source.otherwise) - set(source.columns)):
            found = f"otherwise there is {list_names(strange)} of {name}"
            raise declaration_error(joined, found, f"What is taken of it: {list_names(source.columns)}.")
        for own, text in source.otherwise.items():
            if _is_misfit(text, types[own]):
                found = f"otherwise {own} is '{text}', and the column {types[own].with_article}"
                raise declaration_error(joined, found, "Say in otherwise which value of that type it has.")


def _check_unknown(joined: Joined, dimension: Dimension) -> None:
    texts = joined.unknown or {}
    types = {column.name: column.type for column in dimension.schema}
    if strange := sorted(set(texts) - set(types)):
        raise declaration_error(
            joined, f"its unknown row has {list_names(strange)}", f"Its columns are {list_names(tuple(types))}."
        )
    needed = {} if joined.unknown is None else {**dict.fromkeys(dimension.key, "-1"), **texts}
    for name, text in needed.items():
        if _is_misfit(text, types[name]):
            found = f"{name} of its unknown row is '{text}', and the column {types[name].with_article}"
            raise declaration_error(joined, found, "Say in unknown which value of that type it has.")


def _is_misfit(text: str, type_: Type) -> bool:
    return type_.is_nested or from_text(text, type_) is MISFIT
