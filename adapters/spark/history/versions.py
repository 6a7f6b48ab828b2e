"""Apply events to the versions of their key: `lakeward.core.history.versions` as Spark SQL.

A version is a struct with the fields of `Versions.fields`. The versions of a key are an array of them, in order.
The event is called `e` and is an item of `lakeward.adapters.spark.merge.fold.expression`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.fragments import canonical, cells_type, has_map, let, struct
from lakeward.adapters.spark.sql.names import text
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.dimension import Dimension
from lakeward.core.events import LOAD_SEQUENCE, Sequences
from lakeward.core.history.version_checks import VersionRule
from lakeward.core.history.versions import Columns
from lakeward.core.merge.fold import columns_of
from lakeward.core.schema import Schema, Type


@dataclass(frozen=True, slots=True)
class Versions:
    """Writes SQL for the versions of a key. The cells are those of a schema, named c0, c1, …

    Fields of a version: begin and end of its validity; place and instant of its last event; whether the row `went`
    (was deleted) at its end; its cells; the previous values of columns of kind 3 (p0, p1, … by the index of the
    column); the text of the key that the row had before.
    """

    schema: Schema
    columns: Columns
    sequences: Sequences
    epoch: int

    @classmethod
    def of(cls, dimension: Dimension, schema: Schema, epoch: int) -> Versions | None:
        """Return the version writer of a dimension, or None if it keeps no history."""
        columns = columns_of(dimension)
        return None if columns is None else cls(schema, columns, dimension.sequences, epoch)

    @property
    def previous(self) -> Mapping[str, int]:
        """The columns of kind 3, with their places."""
        return {name: self._index(name) for name in self.columns.previous}

    @property
    def fields(self) -> Mapping[str, str]:
        """The fields of a version, with their SQL types."""
        place = f"struct<e:int,s:{names.sequence_type(self.sequences)},o:bigint,r:bigint>"
        types = {"begins": "bigint", "ends": "bigint", "place": place, "reached": "bigint", "went": "boolean"}
        types["cells"] = cells_type(self.schema)
        types |= {f"p{i}": ddl(self.schema.columns[i].type) for i in self.previous.values()}
        return {**types, "old": "string"}

    @property
    def type(self) -> str:
        """The SQL type of a version."""
        return f"struct<{','.join(f'{name}:{type_}' for name, type_ in self.fields.items())}>"

    @property
    def none(self) -> str:
        """SQL for an empty array of versions."""
        return f"CAST(array() AS array<{self.type}>)"

    def opened(self, versions: str, image: str) -> str:
        """Return SQL for the versions of a key after the event gave its row these cells."""
        ended = self._with_fields("newest", ends="moment", reached="moment", place=self._event_place)
        lets = {
            "had": versions,
            "image": image,
            "newest": "try_element_at(had, -1)",
            "moment": "greatest(newest.reached, e.instant)",
            "differs": f"{_IS_OPEN} AND NOT ({self.same('newest.cells', 'image')})",
            "is_empty": "differs AND newest.begins = moment",
            "head": f"CASE WHEN is_empty THEN {_without_last('had')} "
            f"WHEN differs THEN concat({_without_last('had')}, array({ended})) ELSE had END",
            "came_from": "CASE WHEN is_empty THEN coalesce(e.old, newest.old) ELSE e.old END",
            "before": "try_element_at(head, -1)",
            "goes_on": "before.begins IS NOT NULL AND coalesce(before.ends = moment, true) "
            f"AND ({self.same('before.cells', 'image')})",
            "kept": self._with_first_values(),
            "made": self._new_version(),
        }
        reopened = self._with_fields("before", went="false")
        return let(
            lets,
            f"CASE WHEN goes_on THEN concat({_without_last('head')}, array(made)) "
            f"WHEN before.ends = moment THEN concat({_without_last('head')}, array({reopened}), array(made)) "
            "ELSE concat(head, array(made)) END",
        )

    def first(self, item: str) -> str:
        """Return SQL for the first version of a key, made of an item with all cells."""
        fields = {
            "begins": f"{item}.instant",
            "place": struct({"e": str(self.epoch), **{name: f"{item}.place.{name}" for name in "sor"}}),
            "reached": f"{item}.instant",
            "went": "false",
            "cells": f"{item}.cells",
        }
        nulls = {name: f"CAST(NULL AS {type_})" for name, type_ in self.fields.items()}
        return struct(nulls | fields)

    def closed(self, versions: str, instant: str = "e.instant", place: str | None = None) -> str:
        """Return SQL for the versions of a key after its row was deleted.

        By default this is at the instant and place of the event.
        """
        lets = {
            "had": versions,
            "newest": "try_element_at(had, -1)",
            "moment": f"greatest(newest.reached, {instant})",
            "rest": f"CASE WHEN NOT ({_IS_OPEN}) THEN had WHEN newest.begins = moment THEN {_without_last('had')} "
            f"ELSE concat({_without_last('had')}, array({self._with_fields('newest', ends='moment')})) END",
            "left_over": "try_element_at(rest, -1)",
        }
        deleted = self._with_fields("left_over", went="true", reached="moment", place=place or self._event_place)
        return let(
            lets, f"CASE WHEN size(rest) = 0 THEN rest ELSE concat({_without_last('rest')}, array({deleted})) END"
        )

    def same(self, one: str, other: str) -> str:
        """Return SQL for whether two images belong to the same version."""
        return self.alike(one, other, [self._index(name) for name in self.columns.tracked])

    def alike(self, one: str, other: str, places: Sequence[int]) -> str:
        """Return SQL for whether two images are equal in the columns at these places."""
        types = [(place, self.schema.columns[place].type) for place in places]
        return " AND ".join(equal(f"{one}.c{i}", f"{other}.c{i}", type_) for i, type_ in types) or "true"

    def equal(self, one: str, other: str) -> str:
        """Return SQL for whether two versions are equal to the table.

        `went` is not compared: it follows from the next version. The previous key is not compared: not every table
        shows it.
        """
        places = [equal(f"{one}.{n}", f"{other}.{n}", Type("string")) for n in ("place", "reached")]
        return " AND ".join([*places, self.shows_same(one, other)])

    def shows_same(self, one: str, other: str) -> str:
        """Return SQL for whether two versions have the same values and validity, whatever their last events are."""
        conditions = [equal(f"{one}.{n}", f"{other}.{n}", Type("string")) for n in ("begins", "ends")]
        conditions += [self.alike(f"{one}.cells", f"{other}.cells", range(len(self.schema)))]
        types = {f"p{i}": self.schema.columns[i].type for i in self.previous.values()}
        return " AND ".join([*conditions, *[equal(f"{one}.{n}", f"{other}.{n}", t) for n, t in types.items()]])

    def violation(self, versions: str) -> str:
        """Return SQL for the first rule that the versions of a key break, and where the version begins.

        It is NULL if they break none: `lakeward.core.history.version_checks.violation` as SQL.
        """
        overlaps, adjoins = "p.one.ends IS NULL OR p.one.ends > p.next.begins", "p.one.ends = p.next.begins"
        gap = "p.one.ends < p.next.begins AND NOT p.one.went"
        equal_next = f"{adjoins} AND ({self.same('p.one.cells', 'p.next.cells')})"
        rule = f"CASE WHEN {overlaps} THEN {_rule_text(VersionRule.OVERLAP)} "
        rule += f"WHEN {gap} THEN {_rule_text(VersionRule.GAP)} "
        rule += f"WHEN {equal_next} THEN {_rule_text(VersionRule.EQUAL)} END"
        lets = {
            "all": versions,
            "empty": "filter(all, v -> v.ends <= v.begins)",
            "open": "filter(all, v -> v.ends IS NULL)",
            "pairs": "transform(slice(all, 1, greatest(size(all) - 1, 0)), "
            "(v, i) -> named_struct('one', v, 'next', all[i + 1]))",
            "wrong": f"filter(transform(pairs, p -> named_struct('rule', {rule}, 'begins', p.next.begins)), "
            "p -> p.rule IS NOT NULL)",
            "newest": "try_element_at(all, -1)",
        }
        return let(
            lets,
            f"CASE WHEN size(empty) > 0 THEN {_violation_struct(VersionRule.EMPTY, 'empty[0].begins')} "
            f"WHEN size(open) > 1 THEN {_violation_struct(VersionRule.TWO_CURRENT, 'open[0].begins')} "
            "WHEN size(wrong) > 0 THEN wrong[0] "
            "WHEN newest.ends IS NOT NULL AND NOT newest.went "
            f"THEN {_violation_struct(VersionRule.GAP, 'newest.begins')} END",
        )

    def place_in_epoch(self, place: str) -> str:
        """Return SQL for the place of a version within the epoch.

        Places of earlier epochs lie below all of its events.
        """
        inner = struct({name: f"{place}.{name}" for name in "sor"})
        return f"CASE WHEN {place}.e < {self.epoch} THEN {self.least} ELSE {inner} END"

    @property
    def least(self) -> str:
        """SQL for a place below all places of an epoch except those of its full load."""
        sequence = names.sequence_type(self.sequences)
        return struct({"s": f"CAST('{LOAD_SEQUENCE}' AS {sequence})", "o": f"{-(2**62)}L", "r": "0L"})

    @property
    def loaded(self) -> str:
        """SQL for the place at which a full load ends the rows that it lacks: below all of its own rows."""
        sequence = names.sequence_type(self.sequences)
        return struct({"e": str(self.epoch), "s": f"CAST('{LOAD_SEQUENCE}' AS {sequence})", "o": "0L", "r": "0L"})

    def _new_version(self) -> str:
        previous = {
            f"p{i}": f"CASE WHEN before.begins IS NULL THEN NULL "
            f"WHEN {self.alike('before.cells', 'kept', [i])} THEN before.p{i} ELSE before.cells.c{i} END"
            for i in self.previous.values()
        }
        return struct(
            {
                "begins": "CASE WHEN goes_on THEN before.begins ELSE moment END",
                "ends": "bigint(NULL)",
                "place": self._event_place,
                "reached": "moment",
                "went": "false",
                "cells": "kept",
                **previous,
                "old": "CASE WHEN goes_on THEN coalesce(came_from, before.old) ELSE came_from END",
            }
        )

    def _with_first_values(self) -> str:
        """Return SQL for the image, with the first values in columns of kind 0."""
        first = {self._index(name) for name in self.columns.first_values}
        if not first:
            return "image"
        cells = {
            f"c{i}": f"CASE WHEN before.begins IS NULL THEN image.c{i} ELSE before.cells.c{i} END"
            if i in first
            else f"image.c{i}"
            for i in range(len(self.schema))
        }
        return struct(cells)

    def _with_fields(self, version: str, **fields: str) -> str:
        return struct({name: fields.get(name, f"{version}.{name}") for name in self.fields})

    @property
    def _event_place(self) -> str:
        return struct({"e": str(self.epoch), **{name: f"e.place.{name}" for name in "sor"}})

    def _index(self, name: str) -> int:
        return self.schema.names.index(name)


_IS_OPEN: Final = "newest.begins IS NOT NULL AND newest.ends IS NULL"


def _rule_text(rule: VersionRule) -> str:
    return text(rule.value)


def _violation_struct(rule: VersionRule, begins: str) -> str:
    return struct({"rule": _rule_text(rule), "begins": begins})


def _without_last(versions: str) -> str:
    return f"slice({versions}, 1, size({versions}) - 1)"


def equal(one: str, other: str, type_: Type) -> str:
    """Return SQL for whether two values of a type are equal; NULL equals NULL.

    Spark cannot compare maps, so their entries are compared in key order.
    """
    if has_map(type_):
        one, other = canonical(one, type_), canonical(other, type_)
    return f"{one} <=> {other}"
