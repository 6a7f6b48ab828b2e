"""Apply the column rules of one table to a schema, and find which source columns each column needs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakeward.core.errors import ConfigError
from lakeward.core.schema import Column, Schema
from lakeward.core.shaping.column_rules import OfColumn, Rename, Rule
from lakeward.core.shaping.reshaping_rules import Concat, Constant, Split, Sql
from lakeward.core.text.suggestions import nearest

SYSTEM_PREFIX: Final = "_lakeward_"
"""The prefix of the columns that lakeward adds; no other column may have it."""


@dataclass(frozen=True, slots=True)
class Step:
    """A rule with its number in the settings, and the columns before and after it.

    `needs` are the source columns that it reads, directly or through other rules.
    """

    number: int
    rule: Rule
    before: Schema
    after: Schema
    needs: frozenset[str]

    @property
    def results(self) -> tuple[Column, ...]:
        """The columns that it makes or changes."""
        return self.rule.makes(self.before)


@dataclass(frozen=True, slots=True)
class Shape:
    """The columns of a table as rules make them from those of its source, and the steps in between.

    `needs` has for each column of the table the source columns that it is made of. Where one of these was not sent,
    the column counts as not sent.
    """

    source: Schema
    schema: Schema
    steps: tuple[Step, ...]
    needs: Mapping[str, frozenset[str]]

    def without(self, absent: Collection[str]) -> Schema:
        """Return the columns of the table that need none of these source columns."""
        return Schema(tuple(column for column in self.schema if self.needs[column.name].isdisjoint(absent)))


def shape(rules: Sequence[Rule], source: Schema) -> Shape:
    """Return the result of the rules, in order, for the source's columns.

    Columns that no rule names stay as they are.

    Raises ConfigError, with the rule's number, where a rule does not fit the columns.
    """
    needs = {name: frozenset({name}) for name in source.names}
    steps: list[Step] = []
    schema = source
    for number, rule in enumerate(rules, 1):
        try:
            after = _after(rule, schema, rules[number:], source)
        except ConfigError as error:
            raise ConfigError(
                f"rule {number}, {rule.kind}: {error.what}", found=error.found, todo=error.todo
            ) from error
        roots = frozenset[str]().union(*[needs[name] for name in rule.reads(schema)])
        step = Step(number, rule, schema, after, roots)
        needs.update({item.name: roots for item in step.results})
        needs = {name: needs[name] for name in after.names}
        steps.append(step)
        schema = after
    return Shape(source, schema, tuple(steps), needs)


def _after(rule: Rule, schema: Schema, later: Sequence[Rule], source: Schema) -> Schema:
    """Return the columns after a rule. The columns that it makes follow the last one that it reads."""
    for name in rule.reads(schema):
        if schema.find(name) is None:
            raise _unknown(name, rule, schema, later, source)
    results, removed = rule.makes(schema), set(rule.removes(schema))
    changed = {item.name: item for item in results if item.name in _changes(rule, schema)}
    added = [item for item in results if item.name not in changed]
    _refuse_names(added, [name for name in schema.names if name not in removed])
    behind = max((schema.names.index(name) for name in rule.reads(schema)), default=len(schema) - 1)
    columns: list[Column] = [] if len(schema) else list(added)
    for index, item in enumerate(schema):
        columns += [changed.get(item.name, item)] * (item.name not in removed)
        columns += added if index == behind else []
    if not columns:
        raise ConfigError("no column is left")
    return Schema(tuple(columns))


def _changes(rule: Rule, schema: Schema) -> Collection[str]:
    """Return the columns whose values a rule may replace under the same name."""
    match rule:
        case OfColumn(to=None):
            return (rule.column,)
        case Sql():
            return (rule.to,) if schema.find(rule.to) else ()
        case _:
            return ()


def _unknown(name: str, rule: Rule, schema: Schema, later: Sequence[Rule], source: Schema) -> ConfigError:
    """Return the error for a missing column: a later rule makes it, an earlier one removed it, or it is unknown."""
    message = f"there is no column {name!r} here"
    for maker in later:
        if name in _targets(maker):
            targets = _targets(rule)
            if any(other in targets for other in _read_by_name(maker)):
                return ConfigError(
                    message,
                    found=f"{maker.kind} makes it, and reads what this rule makes: a cycle",
                    todo="Let one of the two read a column that is there already.",
                )
            return ConfigError(
                message, found=f"{maker.kind} makes it further down", todo="Put that rule before this one."
            )
    if source.find(name) is not None:
        return ConfigError(
            message, found="a rule before this one took it away", todo="Put this rule before that one."
        )
    return ConfigError(
        message, found="the columns are " + ", ".join(schema.names), todo=nearest(name, schema.names)
    )


def _targets(rule: Rule) -> tuple[str, ...]:
    """Return the names of the columns that a rule makes, as far as its settings name them."""
    match rule:
        case OfColumn():
            return (rule.target,)
        case Rename() | Concat() | Constant() | Sql():
            return (rule.to,)
        case Split():
            return rule.into
        case _:
            return ()


def _read_by_name(rule: Rule) -> tuple[str, ...]:
    return rule.reads(Schema(()))


def _refuse_names(added: Sequence[Column], existing: Sequence[str]) -> None:
    """Refuse a column name that no table may have, or that exists already, in any case of letters."""
    used_names = {name.lower(): name for name in existing}
    for item in added:
        if not item.name or not item.name.isprintable() or item.name.lower().startswith(SYSTEM_PREFIX):
            raise ConfigError(
                f"{item.name!r} cannot name a column",
                todo=f"Names are not empty, have no control characters and do not begin with {SYSTEM_PREFIX}.",
            )
        other = used_names.get(item.name.lower())
        if other is not None:
            raise ConfigError(
                f"it makes the column {item.name!r}, and {other!r} is there already",
                todo="Give it another name, or drop the other column first.",
            )
        used_names[item.name.lower()] = item.name


def source_key(shape: Shape, key: Sequence[str]) -> tuple[str, ...]:
    """Return the source columns that the columns of a key are made of.

    Raises ConfigError where a column of the key does not exist, or where a rule may make one value of two: then two
    source rows would be one row of the table.
    """
    for name in key:
        if shape.schema.find(name) is None:
            raise _no_key(name, shape)
        _refuse_blurred(name, shape)
    roots = [root for name in key for root in shape.needs[name]]
    if key and not roots:
        raise ConfigError("the key is the same in each row", found=f"a rule makes {', '.join(key)} a constant")
    return tuple(dict.fromkeys(roots))


def table_key(shape: Shape, key: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of the table that hold the key of the source.

    Raises ConfigError where the rules leave no such column, or several, or one in which different keys may be
    equal.
    """
    columns = []
    for name in key:
        candidates = [column for column in shape.schema.names if shape.needs[column] == {name}]
        if len(candidates) != 1 and name not in candidates:
            raise ConfigError(
                f"which column holds {name}, of the primary key at the source, cannot be told",
                found=f"the rules make of it {', '.join(candidates) or 'nothing'}",
                todo="Name the columns of the key, as the rules leave them, by `key`.",
            )
        columns.append(name if name in candidates else candidates[0])
        _refuse_blurred(columns[-1], shape)
    return tuple(columns)


def _no_key(name: str, shape: Shape) -> ConfigError:
    message = f"the key names {name!r}, and no column is called so"
    removing = [step for step in shape.steps if step.before.find(name) and not step.after.find(name)]
    if removing:
        return ConfigError(message, found=f"rule {removing[-1].number}, {removing[-1].rule.kind}, takes it away")
    declare = "Where any column is declared, those of the key must be, too: say its type under `columns`."
    names = shape.schema.names
    return ConfigError(message, found=f"the columns are {', '.join(names)}", todo=nearest(name, names) or declare)


def _refuse_blurred(name: str, shape: Shape) -> None:
    """Refuse a key column where a rule that made it may make one value of two."""
    wanted = {name}
    for step in reversed(shape.steps):
        if wanted.isdisjoint(item.name for item in step.results):
            continue
        if not step.rule.keeps_apart:
            raise ConfigError(
                f"the key names {name!r}, and rule {step.number}, {step.rule.kind}, may make one value of two",
                found="then two rows of the source would be one row of the table",
                todo="Let the key be a column that is only renamed, cast, trimmed, hashed or flattened.",
            )
        wanted = set(step.rule.reads(step.before))


def key_steps(shape: Shape, key: Sequence[str]) -> frozenset[int]:
    """Return the numbers of the rules that make the columns of a key."""
    wanted, numbers = set(key), set[int]()
    for step in reversed(shape.steps):
        results = {item.name for item in step.results}
        if not wanted.isdisjoint(results):
            wanted = (wanted - results) | set(step.rule.reads(step.before))
            numbers.add(step.number)
    return frozenset(numbers)


def check_moves(shape: Shape, key: Sequence[str]) -> None:
    """Raise ConfigError for rules that make the key of a table whose rows change their key."""
    if key_steps(shape, key):
        raise ConfigError(
            "rules make the key, and rows change their key",
            found="the key that a row had is known as the source has it (`before_image_prefix`)",
            todo="Let the columns of the key be as they are at the source, or take that setting out.",
        )
