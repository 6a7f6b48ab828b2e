"""What a person may do about a row in quarantine, and what a mended row must be.

The cells of a mended row are texts; that each fits its type is for the source to see,
which reads them as it reads its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakeward.core.dimension import Dimension
from lakeward.core.errors import MendError
from lakeward.core.events import LOAD_SEQUENCE, Operation
from lakeward.core.memory import Reason
from lakeward.core.ports import Entry

FIXABLE: Final = frozenset({Reason.CAST, Reason.OPERATION, Reason.SEQUENCE, Reason.QUALITY})
"""Reasons whose rows can be mended: their key is known, and nothing behind them was applied."""

ADVICE: Final[Mapping[Reason, str]] = {
    Reason.CAST: "fix the row, or give it up",
    Reason.OPERATION: "fix the row, or give it up",
    Reason.QUALITY: "fix the row, or give it up; or correct the rule, and let the source write the row again",
    Reason.SEQUENCE: "fix the row by giving its commit time, or its sequence, or give it up",
    Reason.KEY_SHIFT: "give it up, and let the source write the row again",
    Reason.UNREADABLE: "let the source write the row again; the table stays inexact until it is loaded anew",
    Reason.NULL_KEY: "let the source write the row again, with its key",
    Reason.NO_KEY: "name a `key` and load the table anew",
    Reason.TOO_LATE: "let the source write the row again, where it is not as it should be",
    Reason.INCOMPLETE_ROW: "let the source write the whole row again",
}
"""What can be done, by reason. Every row can be given up and exported."""


def is_fixable(entry: Entry) -> bool:
    """Whether a row can be mended: the others hold nothing, and later events of their key may be applied."""
    return Reason(entry.reason) in FIXABLE and entry.other_key is None


def operations(dimension: Dimension, entry: Entry) -> tuple[Operation, ...]:
    """Return what the operation of a mended row may be; one that was known stays."""
    if entry.operation is not None:
        return (Operation(entry.operation),)
    if entry.sequence == LOAD_SEQUENCE and Reason(entry.reason) is not Reason.SEQUENCE:
        return (Operation.READ,)
    if not dimension.key:
        return (Operation.INSERT,)
    return (Operation.INSERT, Operation.UPDATE, Operation.DELETE)


_GIVEN: Final[Mapping[str, str]] = {"time": "commit time", "sequence": "sequence"}


def must_give(dimension: Dimension, entry: Entry) -> frozenset[str]:
    """Return what a mended row must be given of its `time` and `sequence`."""
    if Reason(entry.reason) is not Reason.SEQUENCE:
        return frozenset()
    is_placed = not dimension.sequences.are_wide or entry.sequence != LOAD_SEQUENCE
    return frozenset({"time" if is_placed else "sequence"})


def may_give(dimension: Dimension, entry: Entry) -> frozenset[str]:
    """Return what a mended row may be given of its `time` and `sequence`."""
    needed = must_give(dimension, entry)
    return needed | {"time"} if needed and entry.time is None else needed


def check_fixable(dimension: Dimension, entry: Entry) -> None:
    """Raise MendError where a row cannot be mended."""
    where = _where(dimension, entry)
    if Reason(entry.reason) not in FIXABLE:
        raise MendError(
            f"{where} cannot be fixed",
            found=f"the reason is {entry.reason}: what the row should have been does not depend on it alone",
            todo=f"What can be done: {ADVICE[Reason(entry.reason)]}.",
        )
    if entry.other_key is not None:
        raise MendError(
            f"{where} cannot be fixed",
            found=f"it takes a row from the key {entry.other_key} to {entry.key}, and a mended row has one key",
            todo="Let the source write the row again, and give this up (`lakeward quarantine discard`). The row of "
            "the old key stays until the table is loaded anew.",
        )
    if not dimension.key and entry.operation in (Operation.UPDATE.value, Operation.DELETE.value):
        raise MendError(
            f"{where} cannot be fixed",
            found=f"it is of the operation {entry.operation}, and the table has no key to find a row by",
            todo="Give it up: `lakeward quarantine discard`.",
        )


def check_mended(dimension: Dimension, entry: Entry) -> None:
    """Raise MendError where a row cannot be mended, or not into that."""
    check_fixable(dimension, entry)
    where, mended = _where(dimension, entry), entry.mended
    if mended is None:
        raise MendError(f"{where} is not mended", todo="Mend it first: `lakeward quarantine fix`.")
    allowed = operations(dimension, entry)
    if mended.operation not in allowed:
        raise MendError(
            f"{where} cannot be a row of the operation {mended.operation.value}",
            todo=f"It may be {', '.join(operation.value for operation in allowed)}.",
        )
    _check_columns(where, dimension, mended.cells)
    for name, given in (("time", mended.time), ("sequence", mended.sequence)):
        called, is_given = _GIVEN[name], given is not None
        if is_given and name not in may_give(dimension, entry):
            raise MendError(f"{where}: its {called} is known and stays", todo=f"Leave `{name}` out.")
        if not is_given and name in must_give(dimension, entry):
            raise MendError(
                f"{where}: its {called} is not given", todo=f"Write it as `{name}`, as the source does."
            )


def _where(dimension: Dimension, entry: Entry) -> str:
    return f"{dimension.name}: {entry.object}, row {entry.row}"


def _check_columns(where: str, dimension: Dimension, cells: Mapping[str, str | None]) -> None:
    names = dimension.schema.names
    strange = [name for name in cells if name not in names]
    lacking = [name for name in names if name not in cells]
    if strange or lacking:
        found = [f"it has {name}, which the table has not" for name in strange]
        found += [f"it lacks {name}" for name in lacking]
        raise MendError(
            f"{where}: its columns are not those of the table",
            found="; ".join(found),
            todo="Every column of the table has a cell, NULL among them; nothing is filled in.",
        )
    null = [name for name in dimension.key if cells[name] is None]
    if null:
        raise MendError(f"{where}: the key column {null[0]} cannot be NULL", todo="The key stays as it was.")
