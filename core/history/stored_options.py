"""The options of a history as its table stores them: a short text that shows when they have changed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from lakeward.core.dimension import Dimension
from lakeward.core.history.instants import value_of_instant
from lakeward.core.history.options import ByColumn, ByRun, History, Kind, Validity
from lakeward.core.text.literals import text_of

SOFT: Final = '{"deletes":"soft"}'
"""The stored text of a mirror with soft deletes."""

_Options: TypeAlias = dict[str, Any]


def text_of_options(history: History, key: Sequence[str]) -> str:
    """Return the options as one line of JSON: equal where they make equal versions, whatever columns there are.

    Options with their default values are left out, so that a later version of lakeward may add options.

    >>> text_of_options(History(previous_key=True), ["id"])
    '{"previous_key":true}'
    """
    options = {name: value for name, value in _values_of(history, key).items() if value != _DEFAULTS[name]}
    return json.dumps(options, sort_keys=True, separators=(",", ":"))


def options_of(dimension: Dimension) -> str | None:
    """Return the stored text of a table's history or soft deletes, None of any other mirror."""
    if dimension.history is None:
        return SOFT if dimension.is_soft else None
    return text_of_options(dimension.history, dimension.key)


def differences(
    text: str, history: History, key: Sequence[str], renames: Mapping[str, str]
) -> Iterator[tuple[str, str, str]]:
    """Yield each option that differs from a stored text: its name, its old value and its new one.

    `renames` has the new names of columns by their old ones.
    """
    stored: _Options = {**_DEFAULTS, **json.loads(text)}
    current = _values_of(history, key)
    stored["kinds"] = {renames.get(name, name): number for name, number in stored["kinds"].items()}
    if isinstance(stored["validity"], dict):
        stored["validity"] = {name: renames.get(column, column) for name, column in stored["validity"].items()}
    named = sorted({*stored["kinds"], *current["kinds"]})
    before, now = (_by_column(options, named) for options in (stored, current))
    for name in {**before, **now}:
        if before.get(name) != now.get(name):
            yield name, _describe(before.get(name)), _describe(now.get(name))


def _values_of(history: History, key: Sequence[str]) -> _Options:
    form, default = history.validity_columns, Kind.VERSION if history.track.but else Kind.OVERWRITE
    named = {*history.track.columns, *history.kinds}.difference(key)
    return {
        "validity": _of_validity(history.validity),
        "kind of all other columns": default.value,
        "kinds": {n: history.kind(n).value for n in sorted(named) if history.kind(n) is not default},
        "first_load": _instant(history.first_load, history),
        "source_zone": history.zone if history.by_day else "UTC",
        "previous_key": history.previous_key,
        "valid_from": form.valid_from,
        "valid_to": form.valid_to,
        "is_current": form.is_current,
        "type": str(form.type),
        "open_end": _instant(form.open_end, history),
        "closed": form.closed,
        "surrogate": None if form.surrogate is None else form.surrogate.value,
        "surrogate_column": None if form.surrogate is None else form.surrogate_column,
        "known": history.is_bitemporal,
        "known_from": form.known_from if history.is_bitemporal else None,
        "known_to": form.known_to if history.is_bitemporal else None,
    }


def _of_validity(validity: Validity) -> object:
    if isinstance(validity, ByColumn):
        return {"column": validity.column}
    return "run" if isinstance(validity, ByRun) else "time"


def _instant(instant: int | None, history: History) -> str | None:
    type_ = history.validity_columns.type
    return None if instant is None else text_of(value_of_instant(instant, type_), type_)


def _by_column(values: _Options, named: Sequence[str]) -> Mapping[str, object]:
    """Return the options with the kind of each of these columns as an option of its own."""
    kinds, default = values["kinds"], values["kind of all other columns"]
    options = {name: value for name, value in values.items() if name != "kinds"}
    return {**options, **{f"kind of {name}": kinds.get(name, default) for name in named}}


def _describe(value: object) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {text}" for name, text in value.items())
    return "none" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


_DEFAULTS: Final[Mapping[str, Any]] = _values_of(History(), ())
