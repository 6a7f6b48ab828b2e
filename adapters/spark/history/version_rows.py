"""Convert between versions and frames: rows of a table, rows of a change log, and versions by key for a fold.

`lakeward.core.history` defines what versions mean. `lakeward.adapters.spark.history.versions` applies events to
them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark.history.instants import as_validity_value, instant_of_value
from lakeward.adapters.spark.history.surrogate_numbers import NOTHING, Numbering
from lakeward.adapters.spark.history.versions import Versions, equal
from lakeward.adapters.spark.merge.resolution import FILE, POS, stored_column
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.fragments import let, struct
from lakeward.adapters.spark.sql.keys import key_texts
from lakeward.adapters.spark.sql.names import quoted, text
from lakeward.adapters.spark.sql.types import ddl
from lakeward.core.dimension import DELETED, Dimension
from lakeward.core.history.options import PREVIOUS_KEY, History, Kind, Surrogate
from lakeward.core.merge.fold import columns_of
from lakeward.core.schema import Column, Schema, Type

BEGINS: Final = "_lakeward_begins"
ENDS: Final = "_lakeward_ends"
VERSION_EPOCH: Final = "_lakeward_version_epoch"
CAME_FROM: Final = "_lakeward_came_from"
"""Columns of a version besides its cells and `previous_…`: begin and end of its validity, the epoch of its
position, and the text of the key that its row had before.
"""

STORED: Final = "_lakeward_stored"
VERSIONS: Final = "_lakeward_versions"
"""Columns of a key: its stored versions with facts on their rows, and the versions from which a fold starts."""

_BY_BEGIN: Final = "(a, b) -> CASE WHEN a.begins < b.begins THEN -1 WHEN a.begins > b.begins THEN 1 ELSE 0 END"


@dataclass(frozen=True, slots=True)
class VersionRows:
    """Writes versions as rows of a table and reads them back. New rows are marked as known from `batch` on."""

    dimension: Dimension
    history: History
    versions: Versions
    batch: int = 0

    @classmethod
    def of(cls, dimension: Dimension, schema: Schema, epoch: int, batch: int = 0) -> VersionRows | None:
        """Return the version writer of a dimension, or None if it keeps no history."""
        versions = Versions.of(dimension, schema, epoch)
        if dimension.history is None or versions is None:
            return None
        return cls(dimension, dimension.history, versions, batch)

    @property
    def current(self) -> Mapping[str, int]:
        """The columns of kind 6, with their places in the schema."""
        own, key = self.versions.schema.names, self.dimension.key
        return {name: own.index(name) for name in self.history.of_kind(own, key, Kind.CURRENT)}

    # From rows to versions.

    def believed(self, rows: DataFrame) -> DataFrame:
        """Return the rows of the table that no later batch has corrected."""
        return (
            rows.where(f"{quoted(self.history.validity_columns.known_to)} IS NULL")
            if self.history.is_bitemporal
            else rows
        )

    def read(self, rows: DataFrame) -> DataFrame:
        """Return rows of the table as versions, with all their other columns."""
        form = self.history.validity_columns
        begins, ends = (instant_of_value(quoted(name), form.type) for name in (form.valid_from, form.valid_to))
        if form.closed:
            ends = f"{ends} + 1"
        if form.is_current is not None:
            ends = f"CASE WHEN NOT {quoted(form.is_current)} THEN {ends} END"
        elif form.open_end is not None:
            ends = f"nullif({ends}, {form.open_end + form.closed}L)"
        old = PREVIOUS_KEY if self.history.previous_key else "string(NULL)"
        columns = {BEGINS: begins, ENDS: ends, VERSION_EPOCH: names.EPOCH, CAME_FROM: old}
        return rows.selectExpr("*", *[f"{sql} AS {name}" for name, sql in columns.items()])

    def is_contrary(self) -> str:
        """Return SQL for whether the columns of a row contradict each other on whether it is current."""
        form = self.history.validity_columns
        open_end = "NULL" if form.open_end is None else as_validity_value(f"{form.open_end}L", form.type)
        ends_open = f"({quoted(form.valid_to)} <=> {open_end})"
        if form.is_current is not None:
            return f"NOT ({quoted(form.is_current)} <=> {ends_open})"
        return "false" if form.open_end is None else f"{quoted(form.valid_to)} IS NULL"

    def by_key(self, rows: DataFrame, columns: Sequence[str], place: Mapping[str, str], **fields: str) -> DataFrame:
        """Return one row for each key, with its versions in order.

        `place` names the columns of the position. `fields` are further fields of each stored version, as SQL.
        """
        stored = {"begins": BEGINS, "version": self._version(rows, place), **fields}
        by_key = rows.groupBy(*map(quoted, columns)).agg(F.expr(f"collect_list({struct(stored)}) AS {STORED}"))
        return by_key.withColumn(STORED, F.expr(self._in_order(fields)))

    def _version(self, rows: DataFrame, place: Mapping[str, str]) -> str:
        row_columns = set(rows.columns)
        cells = [(quoted(c.name) if c.name in row_columns else "NULL", ddl(c.type)) for c in self.versions.schema]
        previous = {
            f"p{i}": f"CAST({quoted(before) if (before := f'previous_{name}') in row_columns else 'NULL'} "
            f"AS {cells[i][1]})"
            for name, i in self.versions.previous.items()
        }
        values = {
            "begins": BEGINS,
            "ends": ENDS,
            "place": struct({"e": VERSION_EPOCH, **place}),
            "reached": names.REACHED,
            "went": "false",
            "cells": struct({f"c{i}": f"CAST({value} AS {type_})" for i, (value, type_) in enumerate(cells)}),
            **previous,
            "old": CAME_FROM,
        }
        return struct({name: values[name] for name in self.versions.fields})

    def _in_order(self, fields: Mapping[str, str]) -> str:
        """Return SQL for the versions of a key in order, with `went` set where the row was deleted at their end."""
        next_begin = "get(sorted, i + 1).version.begins"
        version = {name: f"s.version.{name}" for name in self.versions.fields}
        version["went"] = f"s.version.ends IS NOT NULL AND NOT (s.version.ends <=> {next_begin})"
        item = {"begins": "s.begins", "version": struct(version), **{name: f"s.{name}" for name in fields}}
        return let({"sorted": f"array_sort({STORED}, {_BY_BEGIN})"}, f"transform(sorted, (s, i) -> {struct(item)})")

    # From versions to rows.

    def instant(self, value: str) -> str:
        """Return SQL for an instant as a value of the validity columns."""
        return as_validity_value(value, self.history.validity_columns.type)

    def changed(self, key: str, stored: str, base: str, versions: str) -> str:
        """Return SQL for the changes of the rows of a key.

        The fields are: the rows to remove, the versions to write, how many more versions are current, and the rule
        that the versions would break, with the version that breaks it.

        `stored` are the stored versions with their further fields. `base` are the versions from which the fold
        started, `versions` those that it left. Versions before the base are kept, as in
        `lakeward.core.history.versions.splice_versions`.
        """
        form = self.history.validity_columns
        lies_before = "coalesce(s.begins < first.begins AND (is_kept OR s.version.place <= first.place), false)"
        lets = {
            "had": stored,
            "first": f"try_element_at({base}, 1)",
            "is_kept": f"size({base}) > 1",
            "left": versions,
            "whole": f"concat(transform(filter(had, s -> {lies_before}), s -> s.version), left)",
            "is_now": "try_element_at(whole, -1).cells",
            # Versions before the base are unchanged, except for the columns that show current values.
            "stood": "had" if self.current else f"filter(had, s -> NOT {lies_before})",
            "stands": "whole" if self.current else "left",
        }
        is_open = "filter({}, v -> v.ends IS NULL)".format
        begins = text(f" ({form.valid_from} = ")
        explanation = f"concat(wrong.rule, {begins}, string({as_validity_value('wrong.begins', form.type)}), ')')"
        lets["wrong"] = self.versions.violation("whole")
        is_unchanged = self._is_unchanged("s", "v")
        changes = {
            "key": key,
            "gone": f"filter(stood, s -> NOT exists(stands, v -> {is_unchanged}))",
            "fresh": self._rows_to_write(f"filter(stands, v -> NOT exists(stood, s -> {is_unchanged}))"),
            "opened": f"size({is_open('whole')}) - size({is_open('transform(had, s -> s.version)')})",
            "wrong": explanation,
        }
        return let(lets, struct(changes))

    def _rows_to_write(self, versions: str) -> str:
        """Return SQL for the rows to write: these versions and, in a bitemporal history, the rows they correct."""
        number = self._number("v")
        if not self.history.is_bitemporal:
            return f"transform({versions}, v -> {self.new('v', 'is_now', number=number)})"
        is_same = self._shows_same("s", "v")
        since = f"coalesce(get(filter(stood, s -> {is_same}), 0).known_from, {self.batch}L)"
        correction = {
            "version": "s.version",
            "current": "s.current" if self.current else "1",
            "known_from": "s.known_from",
            "known_to": f"{self.batch}L",
        }
        correction |= {"number": "s.number"} if self.history.has_numbers else {}
        corrections = (
            f"transform(filter(stood, s -> NOT exists(stands, v -> {is_same})), s -> {struct(correction)})"
        )
        return f"concat(transform({versions}, v -> {self.new('v', 'is_now', since, number)}), {corrections})"

    def _number(self, version: str) -> str:
        """Return SQL for the number of the stored version that a version continues, NULL if it continues none.

        This is `lakeward.core.history.surrogate_numbers` as SQL.
        """
        is_same = self.versions.same("s.version.cells", f"{version}.cells")
        is_moved = f"NOT exists(stands, other -> other.begins = s.begins) AND ({is_same})"
        conditions = (f"s.begins = {version}.begins", f"s.version.ends <=> {version}.ends AND {is_moved}")
        return (
            f"coalesce({', '.join(f'get(filter(stood, s -> {condition}), 0).number' for condition in conditions)})"
        )

    def new(self, version: str, newest: str, since: str | None = None, number: str = "bigint(NULL)") -> str:
        """Return SQL for a version to write; `newest` are the cells of the newest version of its key.

        In a bitemporal history it is known from `since`, by default this batch. `number` is its surrogate number,
        NULL for a new version.
        """
        fields = {"version": version, "current": struct(self._current(newest)) if self.current else "1"}
        if self.history.is_bitemporal:
            fields |= {"known_from": since or f"{self.batch}L", "known_to": "bigint(NULL)"}
        fields |= {"number": number} if self.history.has_numbers else {}
        return struct(fields)

    def _current(self, cells: str) -> Mapping[str, str]:
        return {f"k{i}": f"{cells}.c{i}" for i in self.current.values()}

    def stored(self, rows: DataFrame) -> DataFrame:
        """Return one row for each key of these table rows, with its versions and where they lie."""
        fields = {"file": FILE, "pos": POS}
        shown_current = {f"k{i}": quoted(f"current_{name}") for name, i in self.current.items()}
        fields |= {"current": struct(shown_current)} if shown_current else {}
        fields |= (
            {"known_from": quoted(self.history.validity_columns.known_from)} if self.history.is_bitemporal else {}
        )
        fields |= (
            {"number": quoted(self.history.validity_columns.surrogate_column)} if self.history.has_numbers else {}
        )
        place = dict(zip("sor", names.POSITION[1:], strict=True))
        return self.by_key(self.read(rows), self.dimension.key, place, **fields)

    def _is_unchanged(self, stored: str, version: str) -> str:
        """Return SQL for whether a stored row needs no change to show a version."""
        is_same = self.versions.equal(f"{stored}.version", version)
        return f"{stored}.begins = {version}.begins AND {is_same}{self._shows_further_columns(stored, version)}"

    def _shows_same(self, stored: str, version: str) -> str:
        """Return SQL for whether a stored row shows the same values and validity as a version."""
        is_same = self.versions.shows_same(f"{stored}.version", version)
        return f"{stored}.begins = {version}.begins AND {is_same}{self._shows_further_columns(stored, version)}"

    def _shows_further_columns(self, stored: str, version: str) -> str:
        """Return further SQL conditions: the row shows the right previous key and current values."""
        is_same = f" AND {stored}.version.old <=> {version}.old" if self.history.previous_key else ""
        for i in self.current.values():
            type_ = self.versions.schema.columns[i].type
            is_same += f" AND {equal(f'{stored}.current.k{i}', f'is_now.c{i}', type_)}"
        return is_same

    def numbering(self, fresh: DataFrame, highest: int) -> Numbering:
        """Return the surrogate numbers of the versions in a column `fresh`, if the history has numbers."""
        return Numbering.of(fresh, highest) if self.history.has_numbers else NOTHING

    def rows(self, fresh: DataFrame) -> DataFrame:
        """Return the versions in a column `fresh` as rows of the table."""
        form, version = self.history.validity_columns, "fresh.version"
        columns = {c.name: f"{version}.cells.c{i}" for i, c in enumerate(self.versions.schema)}
        columns |= {f"previous_{name}": f"{version}.p{i}" for name, i in self.versions.previous.items()}
        columns |= {f"current_{name}": f"fresh.current.k{i}" for name, i in self.current.items()}
        columns |= {PREVIOUS_KEY: f"{version}.old"} if self.history.previous_key else {}
        columns |= {
            form.valid_from: as_validity_value(f"{version}.begins", form.type),
            form.valid_to: self._end(version),
        }
        columns |= {form.is_current: f"{version}.ends IS NULL"} if form.is_current is not None else {}
        columns |= dict(zip(self.history.known_columns, ("fresh.known_from", "fresh.known_to"), strict=False))
        if form.surrogate is Surrogate.HASH:
            columns[form.surrogate_column] = self._hash(version)
        if self.history.has_numbers:
            columns[form.surrogate_column] = "fresh.number"
        place = dict(zip(names.POSITION, "esor", strict=True))
        return fresh.selectExpr(
            *[f"{sql} AS {quoted(name)}" for name, sql in columns.items()],
            *[f"{version}.place.{part} AS {name}" for name, part in place.items()],
            f"{version}.reached AS {names.REACHED}",
        )

    def _end(self, version: str) -> str:
        form = self.history.validity_columns
        ended = f"{version}.ends - 1" if form.closed else f"{version}.ends"
        open_end = "NULL" if form.open_end is None else as_validity_value(f"{form.open_end}L", form.type)
        return f"CASE WHEN {version}.ends IS NULL THEN {open_end} ELSE {as_validity_value(ended, form.type)} END"

    def _hash(self, version: str) -> str:
        """Return SQL for the surrogate hash: `surrogate_hash`."""
        places = [self.versions.schema.names.index(name) for name in self.dimension.key]
        columns = [(f"{version}.cells.c{i}", self.versions.schema.columns[i].type) for i in places]
        parts = [*key_texts(columns), f"string({version}.begins)"]
        lengths_and_parts = ", ".join(f"length({part}), ':', {part}" for part in parts)
        return f"sha2(concat({lengths_and_parts}), 256)"

    def gone(self, gone: DataFrame) -> DataFrame:
        """Return the columns that identify the rows to remove, and where they lie. `gone` has stored versions."""
        key = {name: f"gone.version.cells.c{self.versions.schema.names.index(name)}" for name in self.dimension.key}
        key[self.history.validity_columns.valid_from] = as_validity_value(
            "gone.begins", self.history.validity_columns.type
        )
        key |= {self.history.validity_columns.known_from: "gone.known_from"} if self.history.is_bitemporal else {}
        columns = [f"{sql} AS {quoted(name)}" for name, sql in key.items()]
        return gone.selectExpr(*columns, f"gone.file AS {FILE}", f"gone.pos AS {POS}")

    def bases(self, keys: DataFrame) -> DataFrame:
        """Return the versions from which a fold of these keys starts, one row for each, in change log columns."""
        columns = {c.name: f"v.cells.c{i}" for i, c in enumerate(self.versions.schema)}
        columns |= {f"previous_{name}": f"v.p{i}" for name, i in self.versions.previous.items()}
        place = dict(zip((names.SEQUENCE, names.OBJECT, names.ROW), "sor", strict=True))
        columns |= {stored_column(name): f"v.place.{part}" for name, part in place.items()}
        columns |= {VERSION_EPOCH: "v.place.e", BEGINS: "v.begins", ENDS: "v.ends", names.REACHED: "v.reached"}
        columns |= {CAME_FROM: "v.old"}
        versions = keys.selectExpr(f"explode({VERSIONS}) AS v")
        return versions.selectExpr(*[f"{sql} AS {quoted(name)}" for name, sql in columns.items()])


def remembered_types(dimension: Dimension) -> Mapping[str, Type]:
    """Return the further columns of a change log: of a history the instants of events and the columns of versions.

    With soft deletes a base row says whether it was deleted.
    """
    if dimension.history is None:
        return {DELETED: Type("boolean")} if dimension.is_soft else {}
    bigint = Type("bigint")
    types = {names.INSTANT: bigint, BEGINS: bigint, ENDS: bigint, names.REACHED: bigint}
    types |= {VERSION_EPOCH: Type("int"), CAME_FROM: Type("string")}
    return types | {column.name: column.type for column in previous_columns(dimension)}


def previous_columns(dimension: Dimension) -> Sequence[Column]:
    """Return the columns of a history that show the previous value; none for a dimension without history."""
    columns = columns_of(dimension)
    previous = () if columns is None else columns.previous
    return [Column(f"previous_{c.name}", c.type) for c in dimension.schema if c.name in previous]


def tail(versions: str) -> str:
    """Return SQL for the versions of a key from which a fold can continue: the last two."""
    return f"CASE WHEN size({versions}) > 2 THEN slice({versions}, -2, 2) ELSE {versions} END"
