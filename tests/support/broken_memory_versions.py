"""The reference adapter with mistakes in surrogate numbers and recorded versions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from broken_histories import NumbersEachBatchFromOne
from broken_ports import AnyTable
from mutations import Method, mutate

from lakeward.adapters.memory import MemoryTable
from lakeward.core.events import Key
from lakeward.core.history.bitemporal import KnownVersion, KnownVersions
from lakeward.core.history.surrogate_numbers import Numbers
from lakeward.core.merge.fold import Row
from lakeward.core.plan import MergePlan

Rows = Mapping[Key, Row | None]

_mutate = partial(mutate, MemoryTable)


def _number_anew(right: Method, own: MemoryTable, plan: MergePlan, rows: Rows) -> Numbers:
    numbers, own.numbers = own.numbers, {}
    found, own.numbers = right(plan, rows), numbers
    return found


def _number_from_stored(right: Method, own: MemoryTable, plan: MergePlan, rows: Rows) -> Numbers:
    return right(replace(plan, numbered=max(own.numbers.values(), default=0)), rows)


def _number_each_key(right: Method, _: MemoryTable, plan: MergePlan, rows: Rows) -> Numbers:
    each = [right(plan, {key: row}) for key, row in rows.items()]
    return {place: number for numbers in each for place, number in numbers.items()}


def _number_by_start(right: Method, own: MemoryTable, plan: MergePlan, rows: Rows) -> Numbers:
    stored, own.rows = own.rows, {key: _with_unique_ends(row) for key, row in own.rows.items()}
    found, own.rows = right(plan, rows), stored
    return found


def _with_unique_ends(row: Row) -> Row:
    return replace(row, versions=tuple(replace(one, valid_to=-one.valid_from - 1) for one in row.versions))


def _records(mistake: str, change: Method) -> type[MemoryTable]:
    """Return a table that records other versions. `change` gets the batch and the versions of a key."""
    return _mutate(
        mistake,
        known_versions_after=lambda right, _, plan, rows: {
            key: tuple(change(plan.batch, versions)) for key, versions in right(plan, rows).items()
        },
    )


def _overwrite(batch: int, versions: KnownVersions) -> KnownVersions:
    found = {_start(one): one for one in versions if one.known_to == batch}
    others = [one for one in versions if one.known_to != batch]
    anew = [
        replace(one, known_from=found.pop(_start(one)).known_from)
        if one.known_from == batch and _start(one) in found
        else one
        for one in others
    ]
    return (*anew, *found.values())


def _start(version: KnownVersion) -> object:
    return version.cells["valid_from"]


BY_LAW: Mapping[str, Sequence[type[MemoryTable] | type[AnyTable]]] = {
    "a_version_keeps_its_number": (
        _mutate("gives new numbers to all versions of the keys of a batch", numbers_after=_number_anew),
        _mutate(
            "continues from the highest number in the table, although a removed version may have had a higher one",
            numbers_after=_number_from_stored,
        ),
        NumbersEachBatchFromOne,
        _mutate(
            "gives the versions of each key the numbers after the highest, as if there were no other key",
            numbers_after=_number_each_key,
        ),
        _mutate("identifies a version by key and start alone", numbers_after=_number_by_start),
        _mutate(
            "commits numbers without the highest one",
            commit=lambda right, _, plan, resolved, progress: right(
                plan, resolved, replace(progress, numbered=plan.numbered)
            ),
        ),
    ),
    "recorded_versions_are_not_rewritten": (
        _records(
            "removes superseded knowledge, like a history without it",
            lambda _, versions: [one for one in versions if one.known_to is None],
        ),
        _records(
            "records the knowledge of a batch as that of the next one",
            lambda batch, versions: [
                replace(one, known_from=batch + 1) if one.known_from == batch else one for one in versions
            ],
        ),
        _records("overwrites a version with a new end or untracked value, as if it had always been so", _overwrite),
        _records(
            "never ends superseded knowledge", lambda _, versions: [replace(one, known_to=None) for one in versions]
        ),
    ),
}
"""Mistakes by the law of the conformance kit that must show them."""
