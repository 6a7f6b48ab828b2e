"""The options of a history: what dates a version, what opens one, and how both are shown.

Instants are whole numbers, in one unit per history: days since 1970 where the validity columns are dates,
microseconds since 1970 (UTC) where they are timestamps, else the number itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from types import MappingProxyType
from typing import Final, TypeAlias

from lakeward.core.errors import ConfigError
from lakeward.core.schema import Column, Schema, Type
from lakeward.core.schema_changes.evolution import SchemaChange
from lakeward.core.text.suggestions import nearest


class Kind(Enum):
    """What a change of a column does, by the numbers of the types of slowly changing dimensions."""

    KEEP_FIRST = 0
    OVERWRITE = 1
    VERSION = 2
    PREVIOUS = 3
    CURRENT = 6


@dataclass(frozen=True, slots=True)
class Track:
    """The tracked columns: those named or, with `but`, all except those. By default all are tracked."""

    columns: frozenset[str] = frozenset()
    but: bool = True

    def __contains__(self, column: str) -> bool:
        return (column in self.columns) != self.but


@dataclass(frozen=True, slots=True)
class ByTime:
    """A version begins at the source time of the event that opens it."""


@dataclass(frozen=True, slots=True)
class ByColumn:
    """A version begins at the value of a column of the event."""

    column: str


@dataclass(frozen=True, slots=True)
class ByRun:
    """A version begins on the day of the run that brings it."""


Validity: TypeAlias = ByTime | ByColumn | ByRun


class Surrogate(Enum):
    """The kind of a surrogate key: a hash of key and start, or a number that a version keeps."""

    HASH = "hash"
    NUMBER = "number"


TIMESTAMP: Final = Type("timestamp")
TIMES: Final = ("timestamp", "timestamp_ntz")
DAYS: Final = "date"
NUMBERS: Final = ("int", "bigint", "decimal")


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidityColumns:
    """How validity is shown: the names and the type of its columns, and the end of a current version.

    With `closed` a version shows the last day on which it is valid, else the instant at which the next begins.
    `open_end` is in the unit of instants (None: NULL). `surrogate_column` names the surrogate key, `known_from` and
    `known_to` the batches between which a row was believed.
    """

    valid_from: str = "valid_from"
    valid_to: str = "valid_to"
    is_current: str | None = "is_current"
    type: Type = TIMESTAMP
    open_end: int | None = None
    closed: bool = False
    surrogate: Surrogate | None = None
    surrogate_column: str = "version_key"
    known_from: str = "known_from"
    known_to: str = "known_to"


_NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})
PREVIOUS_KEY: Final = "_previous_key"


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The options of a dimension that keeps every version of a row.

    `kinds` overrides `track` for single columns. `first_load` is the instant from which rows of the first full load
    count (None: their own). Days are cut in `zone`. With `previous_key` a version that a key change opened has the
    key from before. With `known` a version that a batch corrects stays, with the batches between which it was
    believed (`lakeward.core.history.bitemporal`).
    """

    validity: Validity = ByTime()
    track: Track = Track()
    kinds: Mapping[str, Kind] = field(default_factory=dict)
    first_load: int | None = None
    zone: str = "UTC"
    previous_key: bool = False
    is_bitemporal: bool = False
    validity_columns: ValidityColumns = ValidityColumns()

    @property
    def by_day(self) -> bool:
        """Whether instants are days."""
        return self.validity_columns.type.name == DAYS

    @property
    def dated_by(self) -> str | None:
        """The column that dates versions, or None."""
        return self.validity.column if isinstance(self.validity, ByColumn) else None

    @property
    def known_columns(self) -> tuple[str, ...]:
        """The columns for the batches between which a row was believed; none without `known`."""
        return (self.validity_columns.known_from, self.validity_columns.known_to) if self.is_bitemporal else ()

    @property
    def has_numbers(self) -> bool:
        """Whether the surrogate key of a version is a number."""
        return self.validity_columns.surrogate is Surrogate.NUMBER

    @property
    def takes_snapshots_between(self) -> bool:
        """Whether an older snapshot can be inserted: versions have times, and no column keeps earlier values."""
        with_earlier_values = {Kind.KEEP_FIRST, Kind.PREVIOUS}.intersection(self.kinds.values())
        return isinstance(self.validity, ByTime) and not with_earlier_values

    def kind(self, column: str) -> Kind:
        """Return what a change of a column does."""
        return self.kinds.get(column) or (Kind.VERSION if column in self.track else Kind.OVERWRITE)

    def of_kind(self, columns: Sequence[str], key: Sequence[str], *kinds: Kind) -> tuple[str, ...]:
        """Return the columns of these kinds. A column of the key has no kind."""
        return tuple(name for name in columns if name not in key and self.kind(name) in kinds)

    def tracked(self, columns: Sequence[str], key: Sequence[str]) -> tuple[str, ...]:
        """Return the columns of which a change opens a version."""
        return self.of_kind(columns, key, Kind.VERSION, Kind.CURRENT)

    def schema(self, source: Schema, key: Sequence[str], renames: Mapping[str, str] = _NO_NAMES) -> Schema:
        """Return the columns that the table shows: those of the source, and those that describe versions.

        Columns of the source have their present names, or the old ones of `renames`.
        """
        form, new_names = (
            self.validity_columns,
            {column.name: renames.get(column.name, column.name) for column in source},
        )
        derived = [
            Column(f"{prefix}_{column.name}", column.type)
            for prefix in ("previous", "current")
            for column in source
            if new_names[column.name] not in key and prefix in self._derives(new_names[column.name])
        ]
        derived += [Column(PREVIOUS_KEY, Type("string"))] if self.previous_key else []
        derived += [Column(form.valid_from, form.type), Column(form.valid_to, form.type)]
        derived += [Column(form.is_current, Type("boolean"))] if form.is_current else []
        derived += [Column(name, Type("bigint")) for name in self.known_columns]
        surrogates = {Surrogate.HASH: Type("string"), Surrogate.NUMBER: Type("bigint"), None: None}
        surrogate = surrogates[form.surrogate]
        return Schema((*([Column(form.surrogate_column, surrogate)] if surrogate else []), *source, *derived))

    def source_columns(self, table_columns: Schema, renames: Mapping[str, str] = _NO_NAMES) -> Schema:
        """Return the columns of the source among those of a table, by their names or the old ones of `renames`."""
        form = self.validity_columns
        derived = {form.valid_from, form.valid_to, form.is_current, *self.known_columns}
        derived |= {form.surrogate_column} if form.surrogate is not None else set()
        derived |= {PREVIOUS_KEY} if self.previous_key else set()
        columns = [column for column in table_columns if column.name not in derived]
        names = {column.name for column in columns}
        derived_names = {f"{prefix}_{name}" for name in names for prefix in self._derives(renames.get(name, name))}
        return Schema(tuple(column for column in columns if column.name not in derived_names))

    def derived(self, change: SchemaChange) -> Iterator[SchemaChange]:
        """Yield a change of a column, and the same change of each column derived from it."""
        yield change
        name, *within = change.names
        for prefix in self._derives(change.to or name):
            path = (f"{prefix}_{name}", *within)
            to = None if change.to is None else f"{prefix}_{change.to}"
            yield replace(change, path=".".join(path), within=path if within else (), to=to)

    def new_names(self, renames: Mapping[str, str]) -> Mapping[str, str]:
        """Return the new names of columns by their old ones, including those of derived columns."""
        derived = {
            f"{prefix}_{old}": f"{prefix}_{new}" for old, new in renames.items() for prefix in self._derives(new)
        }
        return {**renames, **derived}

    def _derives(self, column: str) -> Sequence[str]:
        """Return the prefixes of the columns that are derived from a column."""
        kind = self.kind(column)
        return [prefix for prefix, of in (("previous", Kind.PREVIOUS), ("current", Kind.CURRENT)) if kind is of]

    def check(self, table: str, source: Schema, key: Sequence[str]) -> None:
        """Raise ConfigError where these options cannot be kept for a table with these columns and this key."""
        if not key:
            raise _bad_options(
                table, "a history needs a key", "Name the columns of its key, or keep it as a mirror."
            )
        named = {*self.kinds, *self.track.columns}
        named |= {self.dated_by} if self.dated_by is not None else set()
        if unknown := sorted(named - set(source.names)):
            suggestion = nearest(unknown[0], source.names) or f"There are {', '.join(source.names)}."
            raise _bad_options(table, f"no column {', '.join(unknown)}", suggestion)
        if of_key := sorted(self._columns_with_kind().intersection(key)):
            todo = "Leave it out of `track` and `kinds`: with another key it is another row."
            raise _bad_options(table, f"{', '.join(of_key)} is of the key", todo)
        floating = [column for name in key if (column := source.find(name)) is not None and column.type.is_floating]
        if self.previous_key and floating:
            found = f"{floating[0].name} of the key is {floating[0].type.with_article}"
            raise _bad_options(
                table, f"{found}, whose digits Java writes in several ways", "Leave `previous_key` out."
            )
        self._check_type(table, None if self.dated_by is None else source.find(self.dated_by))
        names = [name.lower() for name in self.schema(source, key).names]
        if repeated := sorted({name for name in names if names.count(name) > 1}):
            raise _bad_options(
                table,
                f"two columns {', '.join(repeated)}",
                "Give one of them another name: a rule renames that of the source.",
            )

    def _columns_with_kind(self) -> frozenset[str]:
        """Return the columns whose kind the options name."""
        return frozenset(self.kinds) | (frozenset() if self.track.but else self.track.columns)

    def _check_type(self, table: str, column: Column | None) -> None:
        """Raise ConfigError where the type of the validity columns does not fit; `column` dates versions."""
        shown_type = self.validity_columns.type
        allowed: Sequence[str] = (*TIMES, DAYS)
        if column is not None and (column.type.name not in (*TIMES, DAYS, *NUMBERS) or column.type.scale):
            raise _bad_options(
                table,
                f"{column.name}, which dates its versions, is {column.type.with_article}",
                "Name a column that is a time, a date or a whole number; a rule `cast` may make one.",
            )
        is_day = column is not None and column.type.name == DAYS
        if is_day or self.validity_columns.closed or isinstance(self.validity, ByRun):
            allowed = (DAYS,)
        fits = shown_type.name in allowed
        if column is not None and column.type.name in NUMBERS:
            if self.validity_columns.closed:
                found = f"{column.name}, which dates its versions, is {column.type.with_article}"
                raise _bad_options(table, found, "`closed` shows the last day of a version: leave it out.")
            allowed, fits = _holding(column.type), _holds(shown_type, column.type)
        if not fits:
            raise _bad_options(
                table,
                f"{self.validity_columns.valid_from} is {shown_type.with_article}",
                f"It may be {_or(allowed)}: say which as `type`.",
            )


_DIGITS: Final[Mapping[str, int]] = {"int": 10, "bigint": 19}


def _holds(wide: Type, narrow: Type) -> bool:
    """Return True if a type has every whole number of another."""
    if wide.name not in NUMBERS or wide.scale:
        return False
    if wide.name == "decimal" or narrow.name == "decimal":
        least = _DIGITS.get(narrow.name, narrow.precision)
        return least <= (wide.precision if wide.name == "decimal" else _DIGITS[wide.name] - 1)
    return _DIGITS[wide.name] >= _DIGITS[narrow.name]


def _holding(type_: Type) -> Sequence[str]:
    """Return the types that have every whole number of another; of decimals only the shortest."""
    digits = _DIGITS.get(type_.name, type_.precision)
    return [*(name for name in _DIGITS if _holds(Type(name), type_)), f"decimal({digits},0)"]


def _or(names: Sequence[str]) -> str:
    return " or ".join(names)


def _bad_options(table: str, found: str, todo: str) -> ConfigError:
    return ConfigError(f"{table}: its history cannot be kept like this", found=found, todo=todo)
