"""Check that a declared joined table can be made of the existing tables.

The checks yield what is wrong in a declaration; the first finding is the error. The last ones are of times: those
that date the versions of a joined table, and those at which versions are looked up.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import ConfigError
from lakeward.core.events import Sequences
from lakeward.core.history.options import DAYS, NUMBERS, TIMES, ByColumn, ByRun, ByTime, History, Surrogate
from lakeward.core.joined.declaration import Aggregate, Function, JoinDeclaration, JoinType, Source
from lakeward.core.joined.join_definition import JoinDefinition, link_columns
from lakeward.core.schema import Column, Schema, Type
from lakeward.core.shaping.shape import SYSTEM_PREFIX
from lakeward.core.text.suggestions import nearest
from lakeward.core.text.values import MISFIT, from_text

Findings: TypeAlias = Iterator[tuple[str, str]]
"""What is wrong in a declaration: what was found, and what to do. The first one is the error."""

_CANNOT: Final = "No joined history can: leave it out."
_INTEGERS: Final = frozenset({"int", "bigint"})
_SUMS: Final[Mapping[str, str]] = {"int": "bigint", "bigint": "decimal", "decimal": "decimal"}
"""The types that can be summed without rounding, and the types that hold their sums."""


def validate_joined(joined: JoinDeclaration, tables: Mapping[TableName, Dimension]) -> JoinDefinition:
    """Return a declaration with the tables that it names, which must have their stored columns.

    Raises ConfigError where it does not fit them.
    """
    refuse(joined, _table_findings(joined, tables))
    of = {name: tables[source.table] for name, source in joined.sources.items()}
    for name in joined.sources:
        refuse(joined, _source_findings(joined, name, of))
    columns = [column for name in joined.sources for column in _columns(joined, name, of[name])]
    refuse(joined, _column_findings(joined, of, columns))
    driving = joined.sources[joined.driving].columns.items()
    names = {column: own for own, column in reversed([*driving])}
    dimension = Dimension(
        name=joined.name,
        schema=Schema(tuple(columns)),
        key=tuple(names[column] for column in link_columns(joined, joined.driving, of[joined.driving])),
        sequences=Sequences.ARRIVAL,
        history=joined.history,
    )
    refuse(joined, _unknown_findings(joined, dimension))
    refuse(joined, history_findings(joined, of, dimension))
    return JoinDefinition(joined=joined, tables=of, dimension=dimension)


def check_key(joined: JoinDeclaration, table: Dimension) -> None:
    """Raise ConfigError where a source has no key. This is known without its columns."""
    refuse(joined, _key_findings(table))


def _key_findings(table: Dimension) -> Findings:
    if not table.key:
        yield f"{table.name} has no key", "Name the columns of its key, or leave it out."


def _table_findings(joined: JoinDeclaration, tables: Mapping[TableName, Dimension]) -> Findings:
    if not joined.sources:
        yield "it has no source", "Name the table of whose keys it has a row each."
    if joined.name in tables:
        yield "a table that a source feeds has its name", "Give it a name of its own."
    for name, source in joined.sources.items():
        table = tables.get(source.table)
        if table is None:
            names = ", ".join(sorted(map(str, tables))) or "none"
            yield f"{name} is made of {source.table}, which is no table here", f"There are: {names}."
            continue
        yield from _key_findings(table)
        if table.history is not None and table.history.is_bitemporal:
            found = f"{source.table} also has versions that are not believed any more (`known`)"
            yield found, "Such a history cannot be joined yet: keep it without."


def _source_findings(joined: JoinDeclaration, name: str, of: Mapping[str, Dimension]) -> Findings:
    """Find links to no earlier source or by other types, rows that need an aggregate, and wrong columns."""
    source, table = joined.sources[name], of[name]
    for option, columns in (("on", source.on), ("to", source.to)):
        if len({*columns}) < len(columns):
            yield f"{name} is joined {option} {list_names(columns)}", "Name each column once."
    yield from _missing_columns(name, table, source.on)
    if name != joined.driving:
        yield from _link_findings(joined, name, of)
    elif source.to or source.beside or source.at:
        yield f"{name} drives, and is joined to another", "The others are joined to it."
    elif source.way is JoinType.INNER:
        todo = "Each of its keys has a row, unless another source is joined so: say it there."
        yield f'{name} drives, and has `way = "inner"`', todo
    if not source.aggregates and not set(table.key) <= set(link_columns(joined, name, table)):
        found = f"{name} may have several rows for one {list_names(source.on)}: its key is {list_names(table.key)}"
        yield found, "Join it on its key, or say what is made of its rows: an aggregate such as latest."
    yield from lookup_findings(joined, name, of)
    yield from _selection_findings(name, source, table)


def _link_findings(joined: JoinDeclaration, name: str, of: Mapping[str, Dimension]) -> Findings:
    source, parent, names = joined.sources[name], joined.parent(name), tuple(of)
    if parent not in names[: names.index(name)]:
        yield f"{name} is joined to {parent}, which is no source before it", "Change their order."
    if not source.on or len(source.on) != len(source.to):
        found = f"{name} is joined on {list_names(source.on)} to {list_names(source.to)}"
        yield found, "Name as many columns of the one as of the other."
    linked = (*source.to, *([] if source.at is None else [source.at]))
    yield from _missing_columns(parent, of[parent], linked)
    for own, other in zip(source.on, source.to, strict=True):
        own_type, other_type = column_type(of[name], own), column_type(of[parent], other)
        is_comparable = own_type.name == other_type.name or {own_type.name, other_type.name} <= _INTEGERS
        if own_type.is_nested or not is_comparable:
            found = f"{name}.{own} is {own_type.with_article}, {parent}.{other} {other_type.with_article}"
            yield found, "Give one of them the type of the other, with a rule of its table (cast)."
    grouped = joined.sources[parent]
    if grouped.aggregates and not set(linked) <= set(grouped.on):
        found = f"{name} is joined to {list_names(linked)}, and several rows of {parent} make one"
        yield found, f"It can be joined to what those are equal in: {list_names(grouped.on)}."


def _selection_findings(name: str, source: Source, table: Dimension) -> Findings:
    """Find columns that do not exist, that a history derives, or that are selected of grouped rows.

    Derived columns do not show how a row was at each instant.
    """
    selectable, selected = _selectable(source, table), set(source.columns.values())
    if derived := sorted((set(table.stored.schema.names) - set(selectable.schema.names)) & selected):
        todo = "Take columns that feed it: a joined history has kinds of its own. Or look versions up (`at`)."
        yield f"of {name} {list_names(derived)} is taken, which its history adds", todo
    yield from _missing_columns(name, selectable, selected)
    for aggregate in source.aggregates.values():
        yield from _aggregate_findings(name, aggregate, table)
    if source.aggregates and (single := sorted(selected - set(source.on))):
        found = f"of {name} {list_names(single)} is taken, and several rows of it make one"
        yield found, "Say which value is meant, with an aggregate such as latest."
    if source.validity is not None:
        yield from _missing_columns(name, table, [source.validity])


def _aggregate_findings(name: str, aggregate: Aggregate, table: Dimension) -> Findings:
    function, column, by = aggregate.function, aggregate.column, aggregate.by
    named = [one for one in (column, by) if one]
    if (column is None and function is not Function.COUNT) or (by is None) == (function is Function.LATEST):
        wanted = {Function.LATEST: "a column and the one that it goes by", Function.COUNT: "a column, or nothing"}
        found = f"{function.value} of {name} is given {list_names(named)}"
        yield found, f"It takes {wanted.get(function, 'a column')}."
    yield from _missing_columns(name, table, named)
    if column is not None and type_of(aggregate, column_type(table, column)) is None:
        todo = "Sums are made of whole numbers and decimals: cast it to a decimal. Nested values have no order."
        yield f"{function.value} of {name}.{column}, which is {column_type(table, column).with_article}", todo
    if by is not None and column_type(table, by).is_nested:
        yield f"{name}.{by} is {column_type(table, by).with_article}", "Nested values have no order."


def type_of(aggregate: Aggregate, column: Type) -> Type | None:
    """Return the type of an aggregate of a column, or None where the column does not have that aggregate.

    The sum of an int is a bigint, that of a bigint or a decimal has 38 digits. A sum of floats would depend on the
    order of the rows.
    """
    if aggregate.function is Function.COUNT:
        return Type("bigint")
    if aggregate.function is Function.SUM:
        wide = _SUMS.get(column.name)
        return None if wide is None else Type(wide, 38, column.scale) if wide == "decimal" else Type(wide)
    return None if aggregate.function is not Function.LATEST and column.is_nested else column


def _missing_columns(name: str, table: Dimension, columns: Iterable[str]) -> Findings:
    if missing := sorted(set(columns) - set(table.schema.names)):
        todo = nearest(missing[0], table.schema.names) or f"It has {list_names(table.schema.names)}."
        yield f"{name} has no column {list_names(missing)}", todo


def _selectable(source: Source, table: Dimension) -> Dimension:
    """Return a table with the columns that can be selected.

    A looked-up version also has those that its history adds.
    """
    return table if source.at is None else table.stored


def _columns(joined: JoinDeclaration, name: str, table: Dimension) -> Iterator[Column]:
    source = joined.sources[name]
    for own, column in source.columns.items():
        yield Column(own, column_type(_selectable(source, table), column))
    for own, aggregate in source.aggregates.items():
        of = Type("bigint") if aggregate.column is None else column_type(table, aggregate.column)
        yield Column(own, type_of(aggregate, of) or of)


def _column_findings(joined: JoinDeclaration, of: Mapping[str, Dimension], columns: Sequence[Column]) -> Findings:
    """Find equal and reserved names, a key that is not selected, and wrong texts of `otherwise`."""
    names = [column.name.lower() for column in columns]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        yield f"two columns {list_names(repeated)}", "Give one of them another name."
    if reserved := [name for name in names if name.startswith(SYSTEM_PREFIX)]:
        yield f"a column {list_names(reserved)}", f"Names that begin with {SYSTEM_PREFIX} are lakeward's own."
    types = {column.name: column.type for column in columns}
    for name, source in joined.sources.items():
        if source.otherwise and (name == joined.driving or source.way is JoinType.INNER or source.aggregates):
            found = f"{name} says what there is otherwise, and no row finds none of it, or several rows make one"
            yield found, 'It is for a source that is joined to another, `way = "left"`, on its key.'
        if others := sorted(set(source.otherwise) - set(source.columns)):
            todo = f"What is taken of it: {list_names(source.columns)}."
            yield f"otherwise there is {list_names(others)} of {name}", todo
        yield from _text_findings(source.otherwise, types, "otherwise", "otherwise {}")
    driving = joined.driving
    key, selected = link_columns(joined, driving, of[driving]), joined.sources[driving].columns.values()
    if missing := [column for column in key if column not in selected]:
        found = f"{list_names(missing)} of {driving} is not among its columns"
        yield found, "Rows are told apart by it: take it, under any name."


def _unknown_findings(joined: JoinDeclaration, dimension: Dimension) -> Findings:
    texts = joined.unknown or {}
    types = {column.name: column.type for column in dimension.schema}
    if others := sorted(set(texts) - set(types)):
        yield f"its unknown row has {list_names(others)}", f"Its columns are {list_names(tuple(types))}."
    needed = {} if joined.unknown is None else {**dict.fromkeys(dimension.key, "-1"), **texts}
    yield from _text_findings(needed, types, "unknown", "{} of its unknown row")


def _text_findings(texts: Mapping[str, str], types: Mapping[str, Type], option: str, cell: str) -> Findings:
    """Find texts of an option that are no values of their columns; `cell` is how such a value is called."""
    for name, text in texts.items():
        if types[name].is_nested or from_text(text, types[name]) is MISFIT:
            found = f"{cell.format(name)} is '{text}', and the column {types[name].with_article}"
            yield found, f"Say in {option} which value of that type it has."


def history_findings(joined: JoinDeclaration, of: Mapping[str, Dimension], dimension: Dimension) -> Findings:
    """Yield why a joined history cannot be kept of the tables of its sources.

    Raises ConfigError for options that no history of these columns can have.
    """
    history = joined.history
    if history is None:
        idle = [name for name, source in joined.sources.items() if source.validity is not None or source.as_now]
        if idle:
            todo = "That is for a joined history: leave it out."
            yield f"{list_names(idle)} has a validity column, or is as_now", todo
        return
    history.check(str(joined.name), dimension.schema, dimension.key)
    if history.is_bitemporal:
        yield "it is to keep versions that are not believed any more (`known`)", _CANNOT
    if history.previous_key:
        yield "it is to say which key a row had before (`previous_key`)", _CANNOT
    if history.validity_columns.surrogate is Surrogate.NUMBER:
        found = 'its versions are made anew, and have no numbers to keep (`surrogate = "number"`)'
        yield found, 'A key and a beginning have one hash: say `surrogate = "hash"`.'
    versioned = {name: own for name in of if (own := of[name].history) and not joined.sources[name].as_now}
    if versioned:
        yield from _over_time_findings(joined, history, versioned)
        yield from _unit_findings({**versioned, str(joined.name): history})
    else:
        yield from _date_findings(joined, history, of)


def _over_time_findings(joined: JoinDeclaration, history: History, versioned: Mapping[str, History]) -> Findings:
    """Find combinations that do not work where some sources are histories whose versions are joined."""
    if mirrors := [name for name, source in joined.sources.items() if name not in versioned and not source.as_now]:
        found = f"{list_names(versioned)} is a history, {list_names(mirrors)} a mirror"
        todo = "Keep all of them as histories, or say as_now of what all versions may show as it is now."
        yield f"{found}, of which nothing tells how it was", todo
    if joined.driving not in versioned:
        yield f"{joined.driving} drives, as it is now", "Versions begin and end with those of a history."
    is_dated = any(source.validity is not None for source in joined.sources.values())
    if is_dated or not isinstance(history.validity, ByTime) or history.first_load is not None:
        found = "its validity or first_load is set, or the validity of a source"
        yield found, "Its versions begin and end as those of its sources do."


def _unit_findings(histories: Mapping[str, History]) -> Findings:
    """Find histories whose instants cannot be compared."""
    if numbers := [name for name, history in histories.items() if history.validity_columns.type.name in NUMBERS]:
        todo = "Only those that are dated by times or days are joined; or take it as_now."
        yield f"versions of {list_names(numbers)} are dated by numbers", todo
    units = {
        name: (one.validity_columns.type.name, one.zone if one.by_day else "") for name, one in histories.items()
    }
    if len(set(units.values())) > 1:
        found = ", ".join(f"{name}: {unit} {zone}".strip() for name, (unit, zone) in units.items())
        yield found, "Give all of them validity columns of one type, and days of one zone."


def _date_findings(joined: JoinDeclaration, history: History, of: Mapping[str, Dimension]) -> Findings:
    """Find mirrors that are `as_now`, which mirrors always are, and those without dates that the table needs."""
    if mirrors := [name for name, source in joined.sources.items() if source.as_now and of[name].history is None]:
        todo = "It is for mirrors beside histories: leave it out."
        yield f"{list_names(mirrors)} is as_now, and a mirror", todo
    if isinstance(history.validity, ByRun):
        if dated := [name for name, source in joined.sources.items() if source.validity is not None]:
            found = f"{list_names(dated)} has a validity column, and versions begin on the day of the run"
            yield found, "Leave one of the two out."
        return
    if isinstance(history.validity, ByColumn):
        todo = "Name the validity column of each source: a version begins at the greatest of them."
        yield f"its versions are dated by its column {history.validity.column}", todo
    for name, source in joined.sources.items():
        column = None if source.validity is None else column_type(of[name], source.validity)
        if column is not None and column.name not in ((*TIMES, DAYS) if history.by_day else TIMES):
            own, shown = column.with_article, history.validity_columns.type.with_article
            found = f"the validity column of {name} is {own}, those of the joined table {shown}"
            yield found, "A time dates days and times, a date only days."
        if column is None and of[name].sequences is not Sequences.TIMES:
            todo = "Name its validity column, or date versions by the run."
            yield f"the rows of {name} do not keep when they were changed", todo


def lookup_findings(joined: JoinDeclaration, name: str, of: Mapping[str, Dimension]) -> Findings:
    """Yield why a source that is looked up at a time has no single version that is valid then."""
    source, parent, history = joined.sources[name], joined.parent(name), of[name].history
    if source.at is None:
        return
    lookup = f"{name} is looked up at {parent}.{source.at}"
    if joined.history is not None:
        todo = "Only a joined mirror looks versions up yet: make it one, or leave `at` out."
        yield f"{lookup}, and the joined table is a history", todo
    if history is None:
        todo = "Keep that table as a history, or leave `at` out: it is joined as it is now."
        yield f"{lookup}, and {source.table} is a mirror, which forgets how it was", todo
        return
    if source.aggregates:
        todo = "One version is valid at a time: take its columns."
        yield f"{lookup}, and {list_names(source.aggregates)} are made of several rows", todo
    column, (unit, types) = column_type(of[parent], source.at), _unit(history)
    if column.name not in types or column.scale:
        found = f"{parent}.{source.at} is {column.with_article}, and versions of {name} are dated by {unit}"
        yield found, f"It may be {' or '.join(types)}: a rule of its table (cast) makes it one."


def _unit(history: History) -> tuple[str, Sequence[str]]:
    """Return what the versions of a history are dated by, and the types that can be compared with that.

    A time counts as its day, but a day is no time.
    """
    if history.by_day:
        return "days", (*TIMES, DAYS)
    return ("times", TIMES) if history.validity_columns.type.name in TIMES else ("numbers", NUMBERS)


def refuse(joined: JoinDeclaration, findings: Findings) -> None:
    """Raise ConfigError with the first finding, if there is one."""
    for found, todo in findings:
        raise ConfigError(f"{joined.name}: it cannot be joined like this", found=found, todo=todo)


def list_names(names: Iterable[str]) -> str:
    """Return names for a sentence."""
    return ", ".join(names) or "nothing"


def column_type(table: Dimension, column: str) -> Type:
    """Return the type of a column that must exist."""
    return next(one.type for one in table.schema if one.name == column)
