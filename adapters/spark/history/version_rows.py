"""Versions as frames: as a table shows them, as what is remembered has them, and by key, to be folded.

What they amount to is said by `lakeward.core.history`; what an event makes of them, by
`lakeward.adapters.spark.history.versions`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark.history.instants import shown_as, told_by
from lakeward.adapters.spark.history.surrogate_numbers import NOTHING, Numbering
from lakeward.adapters.spark.history.versions import Versions, equal
from lakeward.adapters.spark.merge.resolution import FILE, POS, standing
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
"""Of a version, beside its cells and `previous_…`: from when until when it holds, the epoch of its position, and
the text of the key that its row had before."""

STORED: Final = "_lakeward_stored"
VERSIONS: Final = "_lakeward_versions"
"""Of a key: its versions with what is known of the rows that they are in, and those that a fold goes on from."""

_BY_BEGIN: Final = "(a, b) -> CASE WHEN a.begins < b.begins THEN -1 WHEN a.begins > b.begins THEN 1 ELSE 0 END"


@dataclass(frozen=True, slots=True)
class VersionRows:
    """Writes versions as the rows of a table, and reads them again; what is told anew is so with a `batch`."""

    dimension: Dimension
    history: History
    versions: Versions
    batch: int = 0

    @classmethod
    def of(cls, dimension: Dimension, schema: Schema, epoch: int, batch: int = 0) -> VersionRows | None:
        """Return what shows the versions of a dimension, or None of one that keeps none."""
        versions = Versions.of(dimension, schema, epoch)
        if dimension.history is None or versions is None:
            return None
        return cls(dimension, dimension.history, versions, batch)

    @property
    def current(self) -> Mapping[str, int]:
        """The columns of kind 6, with their places."""
        own, key = self.versions.schema.names, self.dimension.key
        return {name: own.index(name) for name in self.history.of_kind(own, key, Kind.CURRENT)}

    # From rows to versions.

    def believed(self, rows: DataFrame) -> DataFrame:
        """Return the rows of the table that no batch has found to be otherwise."""
        return rows.where(f"{quoted(self.history.shown.known_to)} IS NULL") if self.history.known else rows

    def read(self, rows: DataFrame) -> DataFrame:
        """Return rows of the table as versions, with all that they have beside."""
        form = self.history.shown
        begins, ends = (told_by(quoted(name), form.type) for name in (form.valid_from, form.valid_to))
        if form.closed:
            ends = f"{ends} + 1"
        if form.is_current is not None:
            ends = f"CASE WHEN NOT {quoted(form.is_current)} THEN {ends} END"
        elif form.open_end is not None:
            ends = f"nullif({ends}, {form.open_end + form.closed}L)"
        old = PREVIOUS_KEY if self.history.previous_key else "string(NULL)"
        added = {BEGINS: begins, ENDS: ends, VERSION_EPOCH: names.EPOCH, CAME_FROM: old}
        return rows.selectExpr("*", *[f"{sql} AS {name}" for name, sql in added.items()])

    def is_contrary(self) -> str:
        """Return whether the columns of a row contradict each other on whether it is current, as SQL."""
        form = self.history.shown
        open_end = "NULL" if form.open_end is None else shown_as(f"{form.open_end}L", form.type)
        ends_open = f"({quoted(form.valid_to)} <=> {open_end})"
        if form.is_current is not None:
            return f"NOT ({quoted(form.is_current)} <=> {ends_open})"
        return "false" if form.open_end is None else f"{quoted(form.valid_to)} IS NULL"

    def by_key(self, rows: DataFrame, by: Sequence[str], place: Mapping[str, str], **beside: str) -> DataFrame:
        """Return one row a key, with its versions in order; `place` says which columns their places are in.

        `beside` is what is to be known of each stored version besides, as SQL.
        """
        stored = {"begins": BEGINS, "version": self._version(rows, place), **beside}
        found = rows.groupBy(*map(quoted, by)).agg(F.expr(f"collect_list({struct(stored)}) AS {STORED}"))
        return found.withColumn(STORED, F.expr(self._in_order(beside)))

    def _version(self, rows: DataFrame, place: Mapping[str, str]) -> str:
        has = set(rows.columns)
        own = [(quoted(c.name) if c.name in has else "NULL", ddl(c.type)) for c in self.versions.schema]
        previous = {
            f"p{i}": f"CAST({quoted(before) if (before := f'previous_{name}') in has else 'NULL'} AS {own[i][1]})"
            for name, i in self.versions.previous.items()
        }
        known = {
            "begins": BEGINS,
            "ends": ENDS,
            "place": struct({"e": VERSION_EPOCH, **place}),
            "reached": names.REACHED,
            "went": "false",
            "cells": struct({f"c{i}": f"CAST({value} AS {type_})" for i, (value, type_) in enumerate(own)}),
            **previous,
            "old": CAME_FROM,
        }
        return struct({name: known[name] for name in self.versions.fields})

    def _in_order(self, beside: Mapping[str, str]) -> str:
        """Return the versions of a key in order, and say which of them ended because the row went."""
        follows = "get(sorted, i + 1).version.begins"
        went = {name: f"s.version.{name}" for name in self.versions.fields}
        went["went"] = f"s.version.ends IS NOT NULL AND NOT (s.version.ends <=> {follows})"
        each = {"begins": "s.begins", "version": struct(went), **{name: f"s.{name}" for name in beside}}
        return let({"sorted": f"array_sort({STORED}, {_BY_BEGIN})"}, f"transform(sorted, (s, i) -> {struct(each)})")

    # From versions to rows.

    def instant(self, value: str) -> str:
        """Return an instant as the validity columns show it, as SQL."""
        return shown_as(value, self.history.shown.type)

    def changed(self, key: str, stored: str, base: str, versions: str) -> str:
        """Return what becomes of the rows of a key: those that go, versions to be written, and what is wrong then.

        It also says how many more versions are current afterwards.
        `base` is what a fold went on from, of the `stored` versions with what is beside; `versions` is what it
        left. What lies before the base stays, as in `lakeward.core.history.versions.spliced`.
        """
        form = self.history.shown
        lies_before = "coalesce(s.begins < first.begins AND (is_kept OR s.version.place <= first.place), false)"
        lets = {
            "had": stored,
            "first": f"try_element_at({base}, 1)",
            "is_kept": f"size({base}) > 1",
            "left": versions,
            "whole": f"concat(transform(filter(had, s -> {lies_before}), s -> s.version), left)",
            "is_now": "try_element_at(whole, -1).cells",
            # What lies before the base is as it was, but for the current values that it shows.
            "stood": "had" if self.current else f"filter(had, s -> NOT {lies_before})",
            "stands": "whole" if self.current else "left",
        }
        is_open = "filter({}, v -> v.ends IS NULL)".format
        at = text(f" ({form.valid_from} = ")
        told = f"concat(wrong.rule, {at}, string({shown_as('wrong.begins', form.type)}), ')')"
        lets["wrong"] = self.versions.violation("whole")
        stays = self._stays("s", "v")
        made = {
            "key": key,
            "gone": f"filter(stood, s -> NOT exists(stands, v -> {stays}))",
            "fresh": self._fresh(f"filter(stands, v -> NOT exists(stood, s -> {stays}))"),
            "opened": f"size({is_open('whole')}) - size({is_open('transform(had, s -> s.version)')})",
            "wrong": told,
        }
        return let(lets, struct(made))

    def _fresh(self, versions: str) -> str:
        """Return the rows to be written: these versions and, where that is kept, what is believed no more."""
        number = self._number("v")
        if not self.history.known:
            return f"transform({versions}, v -> {self.new('v', 'is_now', number=number)})"
        told = self._tells("s", "v")
        since = f"coalesce(get(filter(stood, s -> {told}), 0).known_from, {self.batch}L)"
        was = {
            "version": "s.version",
            "current": "s.current" if self.current else "1",
            "known_from": "s.known_from",
            "known_to": f"{self.batch}L",
        }
        was |= {"number": "s.number"} if self.history.has_numbers else {}
        ended = f"transform(filter(stood, s -> NOT exists(stands, v -> {told})), s -> {struct(was)})"
        return f"concat(transform({versions}, v -> {self.new('v', 'is_now', since, number)}), {ended})"

    def _number(self, version: str) -> str:
        """Return the number of what stood and lives on in a version, NULL where nothing does.

        It is `lakeward.core.history.surrogate_numbers` as SQL.
        """
        is_same = self.versions.same("s.version.cells", f"{version}.cells")
        is_moved = f"NOT exists(stands, other -> other.begins = s.begins) AND ({is_same})"
        ways = (f"s.begins = {version}.begins", f"s.version.ends <=> {version}.ends AND {is_moved}")
        return f"coalesce({', '.join(f'get(filter(stood, s -> {way}), 0).number' for way in ways)})"

    def new(self, version: str, newest: str, since: str | None = None, number: str = "bigint(NULL)") -> str:
        """Return a version that is to be written; `newest` are the cells of the newest one of its key.

        Where it is kept when it was believed, that is since this batch, or `since` another. Where versions have
        numbers, it has none yet, or this one.
        """
        made = {"version": version, "current": struct(self._current(newest)) if self.current else "1"}
        if self.history.known:
            made |= {"known_from": since or f"{self.batch}L", "known_to": "bigint(NULL)"}
        made |= {"number": number} if self.history.has_numbers else {}
        return struct(made)

    def _current(self, cells: str) -> Mapping[str, str]:
        return {f"k{i}": f"{cells}.c{i}" for i in self.current.values()}

    def stored(self, rows: DataFrame) -> DataFrame:
        """Return one row a key of these rows of the table, with its versions and where they lie."""
        beside = {"file": FILE, "pos": POS}
        shown_current = {f"k{i}": quoted(f"current_{name}") for name, i in self.current.items()}
        beside |= {"current": struct(shown_current)} if shown_current else {}
        beside |= {"known_from": quoted(self.history.shown.known_from)} if self.history.known else {}
        beside |= {"number": quoted(self.history.shown.surrogate_column)} if self.history.has_numbers else {}
        place = dict(zip("sor", names.POSITION[1:], strict=True))
        return self.by_key(self.read(rows), self.dimension.key, place, **beside)

    def _stays(self, stored: str, version: str) -> str:
        """Return whether a row of the table stays as it is."""
        is_same = self.versions.equal(f"{stored}.version", version)
        return f"{stored}.begins = {version}.begins AND {is_same}{self._shows_more(stored, version)}"

    def _tells(self, stored: str, version: str) -> str:
        """Return whether a row of the table shows what a version does."""
        is_same = self.versions.tells(f"{stored}.version", version)
        return f"{stored}.begins = {version}.begins AND {is_same}{self._shows_more(stored, version)}"

    def _shows_more(self, stored: str, version: str) -> str:
        """Return whether a row shows the key of before, and current values, as they are: further conditions."""
        is_same = f" AND {stored}.version.old <=> {version}.old" if self.history.previous_key else ""
        for i in self.current.values():
            type_ = self.versions.schema.columns[i].type
            is_same += f" AND {equal(f'{stored}.current.k{i}', f'is_now.c{i}', type_)}"
        return is_same

    def numbering(self, fresh: DataFrame, highest: int) -> Numbering:
        """Return how versions that are to be written, in a column `fresh`, are numbered, where they are."""
        return Numbering.of(fresh, highest) if self.history.has_numbers else NOTHING

    def rows(self, fresh: DataFrame) -> DataFrame:
        """Return versions as rows of the table: the frame has them in a column `fresh`."""
        form, version = self.history.shown, "fresh.version"
        own = {c.name: f"{version}.cells.c{i}" for i, c in enumerate(self.versions.schema)}
        own |= {f"previous_{name}": f"{version}.p{i}" for name, i in self.versions.previous.items()}
        own |= {f"current_{name}": f"fresh.current.k{i}" for name, i in self.current.items()}
        own |= {PREVIOUS_KEY: f"{version}.old"} if self.history.previous_key else {}
        own |= {form.valid_from: shown_as(f"{version}.begins", form.type), form.valid_to: self._end(version)}
        own |= {form.is_current: f"{version}.ends IS NULL"} if form.is_current is not None else {}
        own |= dict(zip(self.history.knowing, ("fresh.known_from", "fresh.known_to"), strict=False))
        if form.surrogate is Surrogate.HASH:
            own[form.surrogate_column] = self._hash(version)
        if self.history.has_numbers:
            own[form.surrogate_column] = "fresh.number"
        place = dict(zip(names.POSITION, "esor", strict=True))
        return fresh.selectExpr(
            *[f"{sql} AS {quoted(name)}" for name, sql in own.items()],
            *[f"{version}.place.{part} AS {name}" for name, part in place.items()],
            f"{version}.reached AS {names.REACHED}",
        )

    def _end(self, version: str) -> str:
        form = self.history.shown
        ended = f"{version}.ends - 1" if form.closed else f"{version}.ends"
        open_end = "NULL" if form.open_end is None else shown_as(f"{form.open_end}L", form.type)
        return f"CASE WHEN {version}.ends IS NULL THEN {open_end} ELSE {shown_as(ended, form.type)} END"

    def _hash(self, version: str) -> str:
        """Return `surrogate_hash` as SQL."""
        places = [self.versions.schema.names.index(name) for name in self.dimension.key]
        columns = [(f"{version}.cells.c{i}", self.versions.schema.columns[i].type) for i in places]
        parts = [*key_texts(columns), f"string({version}.begins)"]
        told = ", ".join(f"length({part}), ':', {part}" for part in parts)
        return f"sha2(concat({told}), 256)"

    def gone(self, gone: DataFrame) -> DataFrame:
        """Return what tells rows of the table from all others, and where they lie, of stored versions as `gone`."""
        key = {name: f"gone.version.cells.c{self.versions.schema.names.index(name)}" for name in self.dimension.key}
        key[self.history.shown.valid_from] = shown_as("gone.begins", self.history.shown.type)
        key |= {self.history.shown.known_from: "gone.known_from"} if self.history.known else {}
        listed = [f"{sql} AS {quoted(name)}" for name, sql in key.items()]
        return gone.selectExpr(*listed, f"gone.file AS {FILE}", f"gone.pos AS {POS}")

    def bases(self, keys: DataFrame) -> DataFrame:
        """Return what a fold goes on from of these keys, a row a version, in the columns of what is remembered."""
        own = {c.name: f"v.cells.c{i}" for i, c in enumerate(self.versions.schema)}
        own |= {f"previous_{name}": f"v.p{i}" for name, i in self.versions.previous.items()}
        place = dict(zip((names.SEQUENCE, names.OBJECT, names.ROW), "sor", strict=True))
        own |= {standing(name): f"v.place.{part}" for name, part in place.items()}
        own |= {VERSION_EPOCH: "v.place.e", BEGINS: "v.begins", ENDS: "v.ends", names.REACHED: "v.reached"}
        own |= {CAME_FROM: "v.old"}
        exploded = keys.selectExpr(f"explode({VERSIONS}) AS v")
        return exploded.selectExpr(*[f"{sql} AS {quoted(name)}" for name, sql in own.items()])


def remembered_types(dimension: Dimension) -> Mapping[str, Type]:
    """Return the columns that what is remembered has beside: of a history when events count, and of bases.

    Where deletes are soft, a base says whether its row went.
    """
    if dimension.history is None:
        return {DELETED: Type("boolean")} if dimension.is_soft else {}
    bigint = Type("bigint")
    known = {names.INSTANT: bigint, BEGINS: bigint, ENDS: bigint, names.REACHED: bigint}
    known |= {VERSION_EPOCH: Type("int"), CAME_FROM: Type("string")}
    return known | {column.name: column.type for column in previous_columns(dimension)}


def previous_columns(dimension: Dimension) -> Sequence[Column]:
    """Return the columns of a history that show the value before; none of a dimension that keeps none."""
    columns = columns_of(dimension)
    names_of = () if columns is None else columns.previous
    return [Column(f"previous_{c.name}", c.type) for c in dimension.schema if c.name in names_of]


def tail(versions: str) -> str:
    """Return what is needed of the versions of a key to go on from them, as SQL."""
    return f"CASE WHEN size({versions}) > 2 THEN slice({versions}, -2, 2) ELSE {versions} END"
