"""Histories as the settings write them; the core's own options are made of them.

`docs/reference/settings.md` is generated from these models, and `docs/explanation/history.md` explains them.
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
    Shown,
    Surrogate,
    Track,
    Validity,
)
from lakeward.core.schema import Schema, Type, parse_type
from lakeward.core.shaping.shape import SYSTEM_PREFIX
from lakeward.core.text.literals import value_of


def may_name(name: str) -> bool:
    """Whether a column may be called so."""
    return bool(name) and name.isprintable() and not name.lower().startswith(SYSTEM_PREFIX)


def _name(value: str) -> str:
    if not may_name(value):
        raise ValueError(f"{value!r} cannot name a column")
    return value


def _name_or_none(value: Any) -> Any:
    if value is not False and not isinstance(value, str):
        raise ValueError("must be the name of a column, or false")
    return value if value is False else _name(value)


def _type_name(value: str) -> str:
    try:
        type_ = parse_type(value)
    except ConfigError:
        type_ = Type("")
    if type_.name not in (*TIMES, DAYS, *NUMBERS) or type_.scale:
        raise ValueError("must be timestamp, timestamp_ntz, date, int, bigint, or a decimal without places")
    return value


def _validity(value: Any) -> Any:
    if value in ("time", "run"):
        return value
    if isinstance(value, Mapping) and [*value] == ["column"] and isinstance(value["column"], str):
        return value
    raise ValueError('must be "time", "run", or { column = "…" }')


def _whole(value: Any) -> Any:
    """Refuse what Python takes for an equal number: truths, and floats."""
    strange = [name for name, one in value.items() if type(one) is not int] if isinstance(value, Mapping) else []
    if strange:
        raise ValueError(f"the kind of {strange[0]} must be 0, 1, 2, 3 or 6")
    return value


def _tracked(value: Any) -> Any:
    """Take names, "*" alone, or a table of the names that are left out."""
    names = value["all_but"] if isinstance(value, Mapping) and [*value] == ["all_but"] else value
    is_list = isinstance(names, list) and bool(names) and all(isinstance(name, str) for name in names)
    if not is_list or ("*" in names and value != [_ALL]):
        raise ValueError('must be ["*"], the names of columns, or { all_but = ["…"] }')
    return value


def written(value: Any) -> Any:
    """Take numbers, dates, times and truths of TOML for the texts that write them: a column has their type."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, date | time):
        return value.isoformat()
    return str(value) if isinstance(value, int | float) else value


_ALL: Final = "*"
Name: TypeAlias = Annotated[str, AfterValidator(_name)]
Instant: TypeAlias = Annotated[str | None, BeforeValidator(written)]
Tracked: TypeAlias = Annotated[list[str] | dict[str, list[str]], BeforeValidator(_tracked)]


class HistorySettings(BaseModel):
    """How the versions of rows are kept, with `mode = "history"`; docs/explanation/history.md has examples."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    validity: Annotated[Literal["time", "run"] | dict[str, str], BeforeValidator(_validity)] = Field(
        "time",
        description="What a version begins at: the commit `time` of the change (of the run, where there is none), "
        'the day of the `run` that brings it, or what a column has: `{ column = "changed_at" }`.',
    )
    first_load: Instant = Field(
        None,
        description="What rows of the first full load begin at, as `1900-01-01`: a value of `type`, times in UTC "
        "where they have no offset. Without it they begin as all others.",
    )
    valid_from: Name = Field("valid_from", description="The column in which a version begins.")
    valid_to: Name = Field("valid_to", description="The column in which it ends.")
    is_current: Annotated[str | Literal[False], BeforeValidator(_name_or_none)] = Field(
        "is_current", description="The column that tells whether it is current; `false` is no such column."
    )
    type: Annotated[str | None, AfterValidator(_type_name)] = Field(
        None,
        description="The type of both: `timestamp` (the default), `timestamp_ntz`, in UTC, or `date`, which is "
        'that of `validity = "run"` and `closed`. With `validity = { column = "…" }` the type of that column where '
        "it is a date or a whole number: `int`, `bigint`, `decimal(p,0)`.",
    )
    open_end: Instant = Field(
        None,
        description="What a current version ends at, as `9999-12-31`: a value of `type` behind all changes. "
        "Without it: NULL.",
    )
    closed: bool = Field(
        False, description="With dates: a version ends on the last day on which it is valid, not on the next."
    )
    surrogate: Literal["hash", "number"] | None = Field(
        None,
        description="A key of one column for each version: a `hash` of key and beginning, or a `number` that it "
        "gets when it is first written, and keeps.",
    )
    surrogate_column: Name = Field("version_key", description="The column of the surrogate key.")
    previous_key: bool = Field(
        False, description="A column `_previous_key`: which key the row had before a change of its key."
    )
    known: bool = Field(
        False,
        description="What a batch finds to be otherwise stays as it was told, with the numbers of the batches "
        "between which it was believed: so a late change does not rewrite what was reported.",
    )
    known_from: Name = Field("known_from", description="With `known`, the column of the first of those batches.")
    known_to: Name = Field(
        "known_to", description="With `known`, that of the batch which found it to be otherwise; NULL until then."
    )
    kinds: Annotated[dict[str, Literal[0, 1, 2, 3, 6]], BeforeValidator(_whole)] = Field(
        default_factory=dict,
        description="What a change of a column does, by its number, whatever `track` says: `0` keeps the first "
        "value, `1` overwrites, `2` opens a version, `3` overwrites and keeps the value before in `previous_…`, "
        "`6` opens a version and shows the current value on all in `current_…`.",
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
        for said, is_by_day in by.items():
            if is_by_day and type_.name != DAYS:
                raise ValueError(f'`{said}` needs `type = "date"`, and it is {type_}')
        if type_.name in NUMBERS and not isinstance(self.validity, dict):
            raise ValueError(f'`type = "{type_}"` needs a column of numbers: `validity = {{ column = "…" }}`')
        first, end = (_instant(name, getattr(self, name), type_) for name in ("first_load", "open_end"))
        if first is not None and end is not None and end <= first:
            raise ValueError(f"`open_end` {self.open_end} is not behind `first_load` {self.first_load}")
        return self

    @model_validator(mode="after")
    def _has_names_of_its_own(self) -> HistorySettings:
        names = [name.lower() for name in history_of([_ALL], self, "UTC").schema(Schema(()), ()).names]
        if twice := [name for name in names if names.count(name) > 1]:
            raise ValueError(f"two columns are called {twice[0]!r}")
        if "surrogate_column" in self.model_fields_set and self.surrogate is None:
            raise ValueError("`surrogate_column` names a column that is not made: say `surrogate`, too")
        named = [name for name in ("known_from", "known_to") if name in self.model_fields_set]
        if named and not self.known:
            raise ValueError(f"`{named[0]}` names a column that is not made: say `known = true`, too")
        return self


def history_of(track: list[str] | dict[str, list[str]], said: HistorySettings, zone: str) -> History:
    """Return how versions are kept, with days that are cut in a zone."""
    type_ = said.shown_type
    return History(
        validity=_validity_of(said.validity),
        track=_track_of(track),
        kinds={column: Kind(number) for column, number in said.kinds.items()},
        first_load=_instant("first_load", said.first_load, type_),
        zone=zone,
        previous_key=said.previous_key,
        known=said.known,
        shown=Shown(
            valid_from=said.valid_from,
            valid_to=said.valid_to,
            is_current=said.is_current or None,
            type=type_,
            open_end=_instant("open_end", said.open_end, type_),
            closed=said.closed,
            surrogate=None if said.surrogate is None else Surrogate(said.surrogate),
            surrogate_column=said.surrogate_column,
            known_from=said.known_from,
            known_to=said.known_to,
        ),
    )


def instant_of(text: str, history: History, now: int) -> int:
    """Return the instant that a person writes, a time in UTC where it has no offset, or "now", in microseconds.

    Raises ConfigError, saying what is expected, where it is none of the history.
    """
    if text == "now" and (moment := instant_of_run(history, now)) is not None:
        return moment
    try:
        return cast("int", _instant("TIME", text, history.shown.type))
    except ValueError as error:
        raise ConfigError(str(error)) from error


def _validity_of(said: str | Mapping[str, str]) -> Validity:
    if isinstance(said, Mapping):
        return ByColumn(said["column"])
    return ByRun() if said == "run" else ByTime()


def _track_of(said: Sequence[str] | Mapping[str, Sequence[str]]) -> Track:
    if isinstance(said, Mapping):
        return Track(frozenset(said["all_but"]))
    return Track() if said == [_ALL] else Track(frozenset(said), but=False)


def _instant(name: str, text: str | None, type_: Type) -> int | None:
    """Return the instant that a text writes in the type of validity; raises ValueError where it writes none."""
    if text is None:
        return None
    try:
        found = instant_of_value(value_of(text, type_), History(shown=Shown(type=type_)))
    except (ValueError, ArithmeticError):
        found = None
    if found is None:
        raise ValueError(f"`{name}` {text!r} is no {type_}: {_form(type_)}")
    return found


def _form(type_: Type) -> str:
    """Return how an instant is written in the type of validity; a number of any type has 64 bits at most."""
    if type_.name not in NUMBERS:
        return _FORMS[type_.name]
    least, most = instant_range(type_)
    return f"write it as a whole number from {least} to {most}"


_FORMS: Final[Mapping[str, str]] = {
    "date": "write it as 1900-01-01",
    "timestamp": "write it as 1900-01-01 or 1900-01-01T00:00:00, in UTC, or with an offset behind it; a second may "
    "have six digits",
    "timestamp_ntz": "write it as 1900-01-01 or 1900-01-01T00:00:00, without an offset; a second may have six "
    "digits",
}
