"""Settings of histories, and their conversion to the core's options.

`docs/reference/settings.md` is generated from this model; `docs/explanation/history.md` explains it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, time
from typing import Annotated, Any, Final, Literal, TypeAlias, cast

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from lakeward.core.errors import ConfigError
from lakeward.core.history.instants import instant_of_run, instant_of_value, instant_range
from lakeward.core.history.options import (
    DAYS,
    NUMBERS,
    TIMES,
    TIMESTAMP,
    ByColumn,
    ByRun,
    ByTime,
    History,
    Kind,
    Surrogate,
    Track,
    Validity,
    ValidityColumns,
)
from lakeward.core.schema import Schema, Type, parse_type
from lakeward.core.shaping.shape import SYSTEM_PREFIX
from lakeward.core.text.literals import value_of


def may_name(name: str) -> bool:
    """Return True if a column may have a name: printable, not empty, without the prefix of system columns."""
    return bool(name) and name.isprintable() and not name.lower().startswith(SYSTEM_PREFIX)


def _check_name(value: str) -> str:
    if not may_name(value):
        raise ValueError(f"{value!r} cannot name a column")
    return value


def _check_name_or_false(value: Any) -> Any:
    if value is not False and not isinstance(value, str):
        raise ValueError("must be the name of a column, or false")
    return value if value is False else _check_name(value)


def _check_type(value: str) -> str:
    try:
        type_ = parse_type(value)
    except ConfigError:
        type_ = Type("")
    if type_.name not in (*TIMES, DAYS, *NUMBERS) or type_.scale:
        raise ValueError("must be timestamp, timestamp_ntz, date, int, bigint, or a decimal without places")
    return value


def _check_validity(value: Any) -> Any:
    if value in ("time", "run"):
        return value
    if isinstance(value, Mapping) and [*value] == ["column"] and isinstance(value["column"], str):
        return value
    raise ValueError('must be "time", "run", or { column = "…" }')


def _check_kinds(value: Any) -> Any:
    """Refuse booleans and floats, which Python compares as equal to whole numbers."""
    wrong = [name for name, kind in value.items() if type(kind) is not int] if isinstance(value, Mapping) else []
    if wrong:
        raise ValueError(f"the kind of {wrong[0]} must be 0, 1, 2, 3 or 6")
    return value


def _check_tracked(value: Any) -> Any:
    """Accept names, "*" alone, or a table of the names that are not tracked."""
    names = value["all_but"] if isinstance(value, Mapping) and [*value] == ["all_but"] else value
    is_list = isinstance(names, list) and bool(names) and all(isinstance(name, str) for name in names)
    if not is_list or ("*" in names and value != [_ALL]):
        raise ValueError('must be ["*"], the names of columns, or { all_but = ["…"] }')
    return value


def as_text(value: Any) -> Any:
    """Return numbers, dates, times and booleans of TOML as text: the type of a column decides how it is read."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, date | time):
        return value.isoformat()
    return str(value) if isinstance(value, int | float) else value


_ALL: Final = "*"
Name: TypeAlias = Annotated[str, AfterValidator(_check_name)]
Instant: TypeAlias = Annotated[str | None, BeforeValidator(as_text)]
Tracked: TypeAlias = Annotated[list[str] | dict[str, list[str]], BeforeValidator(_check_tracked)]


class HistorySettings(BaseModel):
    """The options of a history (`mode = "history"`); docs/explanation/history.md has examples."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    validity: Annotated[Literal["time", "run"] | dict[str, str], BeforeValidator(_check_validity)] = Field(
        "time",
        description="The beginning of a version: the commit `time` of its change (the time of the run if the "
        'source has no commit times), the day of the `run` that applies it, or a column: `{ column = "changed_at" '
        "}`.",
    )
    first_load: Instant = Field(
        None,
        description="The beginning of the rows of the first full load, such as `1900-01-01`: a value of `type`. "
        "Times without an offset are in UTC. Without it they begin like all other versions.",
    )
    valid_from: Name = Field("valid_from", description="The column with the beginning of a version.")
    valid_to: Name = Field("valid_to", description="The column with the end of a version.")
    is_current: Annotated[str | Literal[False], BeforeValidator(_check_name_or_false)] = Field(
        "is_current", description="The column that says whether a version is current. `false` adds no such column."
    )
    type: Annotated[str | None, AfterValidator(_check_type)] = Field(
        None,
        description="The type of `valid_from` and `valid_to`: `timestamp`, `timestamp_ntz` (in UTC), or `date`. "
        'Without it: `date` with `validity = "run"` or `closed`, else `timestamp`. If `validity` names a column of '
        "dates or whole numbers, it is the type of that column: `date`, `int`, `bigint` or `decimal(p,0)`.",
    )
    open_end: Instant = Field(
        None,
        description="The end of a current version, such as `9999-12-31`: a value of `type` that is later than "
        "every change. Without it: NULL.",
    )
    closed: bool = Field(
        False, description="With dates: `valid_to` is the last day on which a version is valid, not the day after."
    )
    surrogate: Literal["hash", "number"] | None = Field(
        None,
        description="Add a key of one column for each version: a `hash` of its key and beginning, or a `number` "
        "that is assigned when the version is first written, and never changes.",
    )
    surrogate_column: Name = Field("version_key", description="The column of the surrogate key.")
    previous_key: bool = Field(
        False, description="Add a column `_previous_key`: the key of the row before a change of its key."
    )
    known: bool = Field(
        False,
        description="Keep versions that a later batch corrects, with the numbers of the batches between which they "
        "were believed (a bitemporal history). So a report of the past can be repeated after a late change.",
    )
    known_from: Name = Field(
        "known_from", description="With `known`: the column with the number of the batch that wrote the version."
    )
    known_to: Name = Field(
        "known_to",
        description="With `known`: the column with the number of the batch that corrected the version, else NULL.",
    )
    kinds: Annotated[dict[str, Literal[0, 1, 2, 3, 6]], BeforeValidator(_check_kinds)] = Field(
        default_factory=dict,
        description="The SCD type of single columns, in place of what `track` says, such as `{ email = 1 }`. A "
        "change of type `0` keeps the first value, `1` overwrites, `2` opens a version, `3` overwrites and keeps "
        "the previous value in `previous_…`, `6` opens a version and shows the current value of all versions in "
        "`current_…`.",
    )

    @property
    def shown_type(self) -> Type:
        """The type of the validity columns."""
        if self.type is not None:
            return parse_type(self.type)
        return Type(DAYS) if self.closed or self.validity == "run" else TIMESTAMP

    @model_validator(mode="after")
    def _is_of_its_type(self) -> HistorySettings:
        type_ = self.shown_type
        by = {'validity = "run"': self.validity == "run", "closed = true": self.closed}
        for option, is_by_day in by.items():
            if is_by_day and type_.name != DAYS:
                raise ValueError(f'`{option}` needs `type = "date"`, and it is {type_}')
        if type_.name in NUMBERS and not isinstance(self.validity, dict):
            raise ValueError(f'`type = "{type_}"` needs a column of numbers: `validity = {{ column = "…" }}`')
        first, end = (_instant(name, getattr(self, name), type_) for name in ("first_load", "open_end"))
        if first is not None and end is not None and end <= first:
            raise ValueError(f"`open_end` {self.open_end} is not later than `first_load` {self.first_load}")
        return self

    @model_validator(mode="after")
    def _has_distinct_names(self) -> HistorySettings:
        names = [name.lower() for name in history_of([_ALL], self, "UTC").schema(Schema(()), ()).names]
        if repeated := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"two columns are called {repeated[0]!r}")
        if "surrogate_column" in self.model_fields_set and self.surrogate is None:
            raise ValueError("`surrogate_column` names a column that is not there: set `surrogate`, too")
        named = [name for name in ("known_from", "known_to") if name in self.model_fields_set]
        if named and not self.known:
            raise ValueError(f"`{named[0]}` names a column that is not there: set `known = true`, too")
        return self


def history_of(track: list[str] | dict[str, list[str]], settings: HistorySettings, zone: str) -> History:
    """Return the options of a history; `zone` is the time zone in which its days begin."""
    type_ = settings.shown_type
    return History(
        validity=_validity_of(settings.validity),
        track=_track_of(track),
        kinds={column: Kind(number) for column, number in settings.kinds.items()},
        first_load=_instant("first_load", settings.first_load, type_),
        zone=zone,
        previous_key=settings.previous_key,
        is_bitemporal=settings.known,
        validity_columns=ValidityColumns(
            valid_from=settings.valid_from,
            valid_to=settings.valid_to,
            is_current=settings.is_current or None,
            type=type_,
            open_end=_instant("open_end", settings.open_end, type_),
            closed=settings.closed,
            surrogate=None if settings.surrogate is None else Surrogate(settings.surrogate),
            surrogate_column=settings.surrogate_column,
            known_from=settings.known_from,
            known_to=settings.known_to,
        ),
    )


def instant_of(text: str, history: History, now: int) -> int:
    """Return the instant that an argument of a command writes, in the unit of the validity columns of the history.

    A time without an offset is in UTC. The text "now" means `now`, a time in microseconds since 1970. Raises
    ConfigError, which says what is expected, for any other text.
    """
    if text == "now" and (moment := instant_of_run(history, now)) is not None:
        return moment
    try:
        return cast("int", _instant("TIME", text, history.validity_columns.type))
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _validity_of(settings: str | Mapping[str, str]) -> Validity:
    if isinstance(settings, Mapping):
        return ByColumn(settings["column"])
    return ByRun() if settings == "run" else ByTime()


def _track_of(settings: Sequence[str] | Mapping[str, Sequence[str]]) -> Track:
    if isinstance(settings, Mapping):
        return Track(frozenset(settings["all_but"]))
    return Track() if settings == [_ALL] else Track(frozenset(settings), but=False)


def _instant(name: str, text: str | None, type_: Type) -> int | None:
    """Return the instant of a text in the type of validity; raises ValueError for a text that is not of it."""
    if text is None:
        return None
    try:
        instant = instant_of_value(value_of(text, type_), History(validity_columns=ValidityColumns(type=type_)))
    except (ValueError, ArithmeticError):
        instant = None
    if instant is None:
        raise ValueError(f"`{name}` {text!r} is no {type_}: {_form(type_)}")
    return instant


def _form(type_: Type) -> str:
    """Return how an instant of a validity type is written. Numbers of any type have at most 64 bits."""
    if type_.name not in NUMBERS:
        return _FORMS[type_.name]
    least, most = instant_range(type_)
    return f"write it as a whole number from {least} to {most}"


_FORMS: Final[Mapping[str, str]] = {
    "date": "write it as 1900-01-01",
    "timestamp": "write it as 1900-01-01 or 1900-01-01T00:00:00, in UTC, or with an offset at its end; a second "
    "may have six digits",
    "timestamp_ntz": "write it as 1900-01-01 or 1900-01-01T00:00:00, without an offset; a second may have six "
    "digits",
}
