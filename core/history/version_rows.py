"""Versions as rows of a table: validity columns, derived columns and surrogate keys."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence

from lakeward.core.dimension import Dimension
from lakeward.core.events import Cell, Key
from lakeward.core.history.instants import value_of_instant
from lakeward.core.history.options import DAYS, PREVIOUS_KEY, History, Kind, Surrogate
from lakeward.core.history.surrogate_numbers import Numbers
from lakeward.core.history.versions import Version, Versions
from lakeward.core.text.literals import key_text, text_of


def rows(dimension: Dimension, key: Key, versions: Versions, numbers: Numbers) -> Iterable[Mapping[str, Cell]]:
    """Return the versions of a key as a table shows them, in order, without the columns of `known`."""
    history = dimension.history or History()
    names = [n for n in history.schema(dimension.schema, dimension.key).names if n not in history.known_columns]
    for version in versions:
        cells = {**version.cells, **_derived_cells(dimension, history, version, versions[-1])}
        cells |= _validity(history, version)
        if history.validity_columns.surrogate is Surrogate.NUMBER:
            cells[history.validity_columns.surrogate_column] = numbers[key, version.valid_from]
        if history.validity_columns.surrogate is Surrogate.HASH:
            cells[history.validity_columns.surrogate_column] = surrogate_hash(dimension, key, version.valid_from)
        yield {name: cells.get(name) for name in names}


def current_row(history: History, rows: Sequence[Mapping[str, Cell]]) -> Mapping[str, Cell] | None:
    """Return the row of the current version, of the rows of one key, or None where there is none.

    A version that a batch corrected is not current.
    """
    form = history.validity_columns
    open_end = None if form.open_end is None else value_of_instant(form.open_end, form.type)
    for row in rows:
        if history.is_bitemporal and row[form.known_to] is not None:
            continue
        if row[form.is_current] if form.is_current is not None else row[form.valid_to] in (None, open_end):
            return row
    return None


def surrogate_hash(dimension: Dimension, key: Key, valid_from: int) -> str:
    """Return the SHA-256 of the texts of the key's parts and of the start, each after its length and a colon."""
    parts = [*_texts(dimension, key), str(valid_from)]
    return hashlib.sha256("".join(f"{len(part)}:{part}" for part in parts).encode()).hexdigest()


def _derived_cells(dimension: Dimension, history: History, version: Version, newest: Version) -> dict[str, Cell]:
    names, key = dimension.schema.names, dimension.key
    cells = {f"previous_{name}": value for name, value in version.previous.items()}
    cells |= {f"current_{name}": newest.cells.get(name) for name in history.of_kind(names, key, Kind.CURRENT)}
    if history.previous_key:
        previous_key = version.previous_key
        cells[PREVIOUS_KEY] = None if previous_key is None else key_text(dimension, previous_key)
    return cells


def _validity(history: History, version: Version) -> dict[str, Cell]:
    form, end = history.validity_columns, version.valid_to
    if end is None:
        end = form.open_end
    elif form.closed and form.type.name == DAYS:
        end -= 1
    cells: dict[str, Cell] = {form.valid_from: value_of_instant(version.valid_from, form.type)}
    cells[form.valid_to] = None if end is None else value_of_instant(end, form.type)
    return cells if form.is_current is None else {**cells, form.is_current: version.is_current}


def _texts(dimension: Dimension, key: Key) -> list[str]:
    types = {column.name: column.type for column in dimension.schema}
    return [text_of(part, types[name]) for part, name in zip(key, dimension.key, strict=True)]
