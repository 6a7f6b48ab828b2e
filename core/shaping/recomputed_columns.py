"""Columns that rules make of several source columns, computed again from the stored row.

An update may send only some of those columns. The result is then known only after the fold has completed the row,
so the rules are applied again there. What they read must be in that row: as a column of the table, or as the result
of other rules on such columns.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from lakeward.core.errors import ConfigError, SchemaConflict
from lakeward.core.shaping.column_rules import TEXT, Cast, Hash, Rename
from lakeward.core.shaping.shape import SYSTEM_PREFIX, Shape, Step, key_steps


@dataclass(frozen=True, slots=True)
class RecomputeStep:
    """A rule to apply again, with the places of what it reads and of what it makes.

    A place is a column of the table, or a name that no table has.
    """

    step: Step
    reads: Mapping[str, str]
    makes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RecomputedColumns:
    """The columns of a table that are computed again, by the place of their last result, and the rules in order.

    Columns in `must` may be sent in part by an update; the others only by files that lack a column.
    """

    columns: Mapping[str, str] = field(default_factory=dict)
    steps: tuple[RecomputeStep, ...] = ()
    must: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.columns)

    def of(self, columns: Collection[str]) -> RecomputedColumns:
        """Return the part that makes these columns."""
        columns_of_part = {name: place for name, place in self.columns.items() if name in columns}
        wanted, steps = set(columns_of_part.values()), list[RecomputeStep]()
        for recompute_step in reversed(self.steps):
            if not wanted.isdisjoint(recompute_step.makes):
                wanted |= set(recompute_step.reads.values())
                steps.insert(0, recompute_step)
        return RecomputedColumns(columns_of_part, tuple(steps), self.must & columns_of_part.keys())

    @property
    def inputs(self) -> frozenset[str]:
        """The columns of the table that they are made of."""
        results = {place for recompute_step in self.steps for place in recompute_step.makes}
        return frozenset(
            place
            for recompute_step in self.steps
            for place in recompute_step.reads.values()
            if place not in results
        )


_Node: TypeAlias = tuple[int, str]
"""A column as it is after a rule: the number of the rule that made it, or 0, and its name there."""

_SOURCE: Final = 0


def recomputed(shape: Shape, key: Collection[str], *, in_part: bool, moves: bool) -> RecomputedColumns:
    """Return how the columns that are made of several source columns are computed again.

    Raises ConfigError where that is impossible but necessary, since rows are sent `in_part`. A column of the key
    that no rule makes is always sent, and unchanged unless the key `moves`.
    """
    unchanged = frozenset(key) if not moves and not key_steps(shape, tuple(key)) else frozenset()
    several = [name for name in shape.schema.names if len(shape.needs[name]) > 1]
    must = frozenset(name for name in several if in_part and len(shape.needs[name] - unchanged) > 1)
    finder, columns = _PlaceFinder(shape, frozenset(several)), dict[str, str]()
    for name in several:
        try:
            columns[name] = finder.place(finder.last[name])
        except _CannotError as error:
            if name in must:
                raise _cannot(shape, name, error) from None
    steps = tuple(finder.steps[number] for number in sorted(finder.steps))
    return RecomputedColumns(columns, steps, must).of(columns)


def select_recomputable(
    table: str, wanted: RecomputedColumns, columns: frozenset[str], added: frozenset[str]
) -> RecomputedColumns:
    """Return what can be computed again in a table with these columns, whose stored rows lack the `added` ones.

    Raises SchemaConflict where a necessary column would be made of columns that the rows lack.
    """
    names = []
    for name in (name for name in wanted.columns if name in columns):
        unknown = sorted(inner for inner in wanted.of([name]).inputs if inner in added or inner not in columns)
        if unknown and name in wanted.must:
            raise _unknown(table, name, ", ".join(unknown))
        names += [] if unknown else [name]
    return wanted.of(names)


def _unknown(table: str, name: str, inputs: str) -> SchemaConflict:
    return SchemaConflict(
        f"{table}: the column {name} is made of {inputs}, which the rows of the table do not have yet",
        found="an update may send a part of a row, and the rest of what the column is made of would be unknown",
        todo="Nothing of this batch was applied; other tables go on. Load the table anew "
        f"(docs/reference/alarms.md#loading-a-table-anew). Where {inputs} is new at the source, too, and NULL in "
        f"older rows is right, take the rule that makes {name} out, run once, and put it back.",
    )


class _CannotError(Exception):
    """A column cannot be computed again: what is not known, and what to do."""

    def __init__(self, found: str, todo: str) -> None:
        self.found, self.todo = found, todo
        super().__init__(found)


def _cannot(shape: Shape, name: str, error: _CannotError) -> ConfigError:
    needed = ", ".join(root for root in shape.source.names if root in shape.needs[name])
    return ConfigError(
        f"the column {name} is made of several columns of the source, and rows come in part",
        found=f"it needs {needed}, of which an update may send some alone; {error.found}",
        todo=f"{error.todo} Or take `no_sup_value` out, where the source sends whole rows.",
    )


class _PlaceFinder:
    """Follows columns through the rules, and finds how to compute them again."""

    def __init__(self, shape: Shape, several: frozenset[str]) -> None:
        self.makers: dict[_Node, tuple[Step, Mapping[str, _Node]]] = {}
        self.removed: dict[_Node, tuple[Step, str]] = {}
        self.steps: dict[int, RecomputeStep] = {}
        self.last: Mapping[str, _Node] = {name: (_SOURCE, name) for name in shape.source.names}
        for step in shape.steps:
            self.last = self._after(step, self.last)
        self.stored = {node: name for name, node in self.last.items() if name not in several}

    def _after(self, step: Step, before: Mapping[str, _Node]) -> Mapping[str, _Node]:
        """Return the columns after a rule. A renamed column stays the same node."""
        if isinstance(step.rule, Rename):
            results = {step.rule.to: before[step.rule.column]}
        else:
            results = {item.name: (step.number, item.name) for item in step.results}
            reads = {name: before[name] for name in step.rule.reads(step.before)}
            self.makers.update(dict.fromkeys(results.values(), (step, reads)))
        after = {name: results.get(name, before.get(name, (_SOURCE, name))) for name in step.after.names}
        self.removed.update({node: (step, name) for name, node in before.items() if node not in after.values()})
        return after

    def place(self, node: _Node) -> str:
        """Return the place of a column in the stored row; raises _CannotError where there is none."""
        if node in self.stored:
            return self.stored[node]
        if node[0] == _SOURCE:
            raise self._not_stored(node)
        step, reads = self.makers[node]
        if isinstance(step.rule, Hash) or (isinstance(step.rule, Cast) and step.rule.type != TEXT):
            raise self._not_stored(node) if len(step.needs) == 1 else _of_last(step)
        if step.number not in self.steps:
            places = {name: self.place(inner) for name, inner in reads.items()}
            self.steps[step.number] = RecomputeStep(
                step, places, tuple(_interim_name(step.number, c.name) for c in step.results)
            )
        return _interim_name(*node)

    def _not_stored(self, node: _Node) -> _CannotError:
        """Return the error that names the rule that removes or changes a column."""
        step, name = self.removed[node]
        verb = "changes" if step.after.find(name) else "takes away"
        return _CannotError(
            f"rule {step.number}, {step.rule.kind}, {verb} {name}, so that it is not known of the row that stands",
            f"Let the table keep {name} as it is (`to` makes another column).",
        )


def _of_last(step: Step) -> _CannotError:
    """Return the error for a rule that cannot be applied to the stored row."""
    if isinstance(step.rule, Hash):
        found = f"rule {step.number}, hash, would need its secret where the table is written"
        return _CannotError(found, "Hash each column before they are joined.")
    found = f"rule {step.number}, cast, would find only then that a value does not fit, too late to hold the row"
    return _CannotError(found, "Let the rule `sql` make it, with `try_cast(… AS …)`, which gives NULL then.")


def _interim_name(number: int, name: str) -> str:
    """Return a name that no table has."""
    return f"{SYSTEM_PREFIX}{number}_{name}"
