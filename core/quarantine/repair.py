"""What an operator may do about a row in quarantine, and what a repaired row must have.

The cells of a repaired row are texts. The source reads them as it reads its own rows, and checks that each fits its
type.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Final

from lakeward.core.dimension import Dimension, Ordered
from lakeward.core.errors import RepairError
from lakeward.core.events import LOAD_SEQUENCE, UNSET, Operation
from lakeward.core.merge.change_log import Reason
from lakeward.core.ports import Entry, RepairedRow, Written
from lakeward.core.text.literals import same_key

FIXABLE: Final = frozenset(
    {
        Reason.CAST,
        Reason.OPERATION,
        Reason.SEQUENCE,
        Reason.QUALITY,
        Reason.SCHEMA,
        Reason.HISTORY,
        Reason.TIE,
        Reason.UNDATED,
    }
)
"""Reasons whose rows can be repaired: their key is known, and no later event of it was applied."""

ADVICE: Final[Mapping[Reason, str]] = {
    Reason.CAST: "fix the row, or discard it",
    Reason.OPERATION: "fix the row, or discard it",
    Reason.QUALITY: "fix the row, or discard it; or correct the rule, and fix the row as it is",
    Reason.SEQUENCE: "fix the row by giving its commit time, or its sequence, or discard it",
    Reason.SCHEMA: "let the table follow and replay the row, or fix it, or discard it",
    Reason.KEY_SHIFT: "discard it, and let the source write the row again",
    Reason.HISTORY: "correct the versions of its key in the table, then fix the row as it is, or discard it",
    Reason.TIE: "fix the row as it is where it came last, or as it should be; or discard it",
    Reason.UNDATED: "fix the row by giving the column a value that can date a version, or discard it",
    Reason.UNREADABLE: "correct the settings where they are wrong, and let the source write the row again; the "
    "table stays inexact until it is loaded anew",
    Reason.NULL_KEY: "let the source write the row again, with its key; where `key` names a wrong column, drop the "
    "table and load it anew",
    Reason.NO_KEY: "name a `key`, or let the source send whole images (`match`), and load the table anew",
    Reason.TOO_LATE: "let the source write the row again, where it is not as it should be",
    Reason.INCOMPLETE_ROW: "let the source write the whole row again",
}
"""What can be done about a row, by reason. Every row can be discarded and exported."""


def why_not(dimension: Dimension, entry: Entry) -> tuple[str, str] | None:
    """Return why a row cannot be repaired, and what can be done instead; None where it can be repaired.

    The dimension has the columns of the rows at the source. A row that holds no key cannot be repaired: later
    events of its key may be applied.
    """
    nested = next((column for column in dimension.schema if column.type.is_nested), None)
    if Reason(entry.reason) not in FIXABLE:
        return (
            f"the reason is {entry.reason}: what the row should have been does not depend on it alone",
            f"What can be done: {ADVICE[Reason(entry.reason)]}.",
        )
    if entry.other_key is not None and isinstance(dimension.lateness, Ordered):
        return "its key changes, and an `ordered` table takes no such row", _DISCARD
    if not dimension.key and entry.operation in (Operation.UPDATE.value, Operation.DELETE.value):
        return f"it is of the operation {entry.operation}, and the table has no key to find a row by", _DISCARD
    if not len(dimension.schema):
        return "the table has column rules, and the columns of its source are not declared", _DECLARE
    if nested is not None:
        return f"the column {nested.name} is a {nested.type}, which has no form as text", _DISCARD
    return None


_DISCARD: Final = "Let the source write the row again, and discard this one: `lakeward quarantine discard`."
_DECLARE: Final = (
    "Declare them as `columns` under [tables], or let the source write the row again, and discard this one."
)


def is_fixable(dimension: Dimension, entry: Entry) -> bool:
    """Return True if a row can be repaired."""
    return why_not(dimension, entry) is None


def operations(dimension: Dimension, entry: Entry) -> tuple[Operation, ...]:
    """Return the operations that a repaired row may have: its own if that is known, and update for a key change."""
    if entry.operation is not None:
        return (Operation(entry.operation),)
    if entry.sequence == LOAD_SEQUENCE and Reason(entry.reason) is not Reason.SEQUENCE:
        return (Operation.READ,)
    if not dimension.key:
        return (Operation.INSERT,)
    if entry.other_key is not None:
        return (Operation.UPDATE,)
    return (Operation.INSERT, Operation.UPDATE, Operation.DELETE)


_NOUNS: Final[Mapping[str, str]] = {"time": "commit time", "sequence": "sequence"}


def must_give(dimension: Dimension, entry: Entry) -> frozenset[str]:
    """Return which of `time` and `sequence` a repaired row must be given."""
    if Reason(entry.reason) is not Reason.SEQUENCE:
        return frozenset()
    is_placed = not dimension.sequences.are_wide or entry.sequence != LOAD_SEQUENCE
    return frozenset({"time" if is_placed else "sequence"})


def may_give(dimension: Dimension, entry: Entry) -> frozenset[str]:
    """Return which of `time` and `sequence` a repaired row may be given."""
    needed = must_give(dimension, entry)
    return needed | {"time"} if needed and entry.time is None else needed


def check_fixable(dimension: Dimension, entry: Entry) -> None:
    """Raise RepairError where a row cannot be repaired."""
    refusal = why_not(dimension, entry)
    if refusal is not None:
        raise RepairError(f"{_row_name(dimension, entry)} cannot be fixed", found=refusal[0], todo=refusal[1])


def check_every(dimension: Dimension, entries: Sequence[Entry]) -> None:
    """Raise RepairError where some of the rows cannot be repaired so; the error names each of them."""
    errors: list[RepairError] = []
    for entry in entries:
        try:
            check_repaired(dimension, entry)
        except RepairError as error:
            errors.append(error)
    if len(errors) == 1:
        raise errors[0]
    if errors:
        raise RepairError(
            f"{dimension.name}: {len(errors):,} of {len(entries):,} rows cannot be repaired so",
            found="\n".join(f"{error.what}: {error.found or error.todo}" for error in errors),
            todo="Nothing was changed. Correct these rows, or take them out.",
        )


def check_repaired(dimension: Dimension, entry: Entry) -> None:
    """Raise RepairError where a row cannot be repaired, or not with these values."""
    check_fixable(dimension, entry)
    row_name, repaired = _row_name(dimension, entry), entry.repaired
    if repaired is None:
        raise RepairError(f"{row_name} is not repaired", todo="Repair it first: `lakeward quarantine fix`.")
    allowed = operations(dimension, entry)
    if repaired.operation not in allowed:
        raise RepairError(
            f"{row_name} cannot be a row of the operation {repaired.operation.value}",
            todo=f"It may be {', '.join(operation.value for operation in allowed)}.",
        )
    _check_columns(row_name, dimension, repaired.cells)
    _check_old_key(row_name, dimension, entry, repaired)
    for name, value in (("time", repaired.time), ("sequence", repaired.sequence)):
        noun, is_given = _NOUNS[name], value is not None
        if is_given and name not in may_give(dimension, entry):
            raise RepairError(f"{row_name}: its {noun} is known and stays", todo=f"Leave `{name}` out.")
        if not is_given and name in must_give(dimension, entry):
            raise RepairError(
                f"{row_name}: its {noun} is not given", todo=f"Write it as `{name}`, as the source does."
            )


def check_same_keys(dimension: Dimension, entry: Entry, key: str | None, old_key: str | None) -> None:
    """Raise RepairError where a repaired row has other keys than it holds; keys are lists in JSON."""
    for name, before, after in (("key", entry.key, key), ("old key", entry.other_key, old_key)):
        if before == after:
            continue
        if before is None or after is None or not same_key(dimension, json.loads(before), json.loads(after)):
            raise RepairError(
                f"{_row_name(dimension, entry)} has another {name} now",
                found=f"it was {before or 'none'}, and is {after or 'none'}",
                todo=f"The {name} stays as it was. Where it is wrong, discard the row.",
            )


def undecided(dimension: Dimension, object_: int | str, row: int) -> RepairError:
    """Return the error for a repaired row that may mean more than one row of the table."""
    return RepairError(
        f"{dimension.name}: {object_}, row {row} as it was repaired may mean one of two rows",
        found="the key that it enters has a row, or covers one, and the feed does not name its transactions",
        todo="Nothing was applied. Repair it in another way (`lakeward quarantine fix`), or discard it, and let "
        "the source write the row again.",
    )


def no_image(dimension: Dimension, object_: int | str, row: int) -> RepairError:
    """Return the error for a repaired row that must remove another one, and has no image to find it by."""
    return RepairError(
        f"{dimension.name}: {object_}, row {row} as it was repaired is an update or a delete",
        found="the table has no key, and a repaired row has no image of the row before the change",
        todo="Nothing was applied. Discard the row, and let the source write the change again.",
    )


def breaks_history(dimension: Dimension, object_: int | str, row: int, rule: str) -> RepairError:
    """Return the error for a repaired row whose key has versions that break `rule`, which is in words."""
    return RepairError(
        f"{dimension.name}: {object_}, row {row} meets versions of its key that are not right",
        found=rule,
        todo="Nothing was applied. Correct the versions in the table first (docs/how-to/quarantine.md), or "
        "discard the row.",
    )


def is_undated(dimension: Dimension, object_: int | str, row: int, detail: str) -> RepairError:
    """Return the error for a repaired row that still has no date in a history; `detail` says why."""
    return RepairError(
        f"{dimension.name}: {object_}, row {row} as it was repaired does not say from when it counts",
        found=detail,
        todo="Nothing was applied. Give the column such a value (`lakeward quarantine fix`), or discard the row.",
    )


def _row_name(dimension: Dimension, entry: Entry) -> str:
    """Return the name of a row for messages."""
    return f"{dimension.name}: {entry.object}, row {entry.row}"


def _check_columns(row_name: str, dimension: Dimension, cells: Mapping[str, Written]) -> None:
    """Raise RepairError where a repaired row has other columns than the table, or a key column without a value."""
    names = dimension.schema.names
    strange = [name for name in cells if name not in names]
    lacking = [name for name in names if name not in cells]
    if strange or lacking:
        problems = [f"it has {name}, which the table has not" for name in strange]
        problems += [f"it lacks {name}" for name in lacking]
        raise RepairError(
            f"{row_name}: its columns are not those of the table",
            found="; ".join(problems),
            todo="Every column of the table has a cell, NULL among them; nothing is filled in.",
        )
    for name in dimension.key:
        if cells[name] is None or cells[name] is UNSET:
            is_ = "be NULL" if cells[name] is None else "be one that was not sent"
            raise RepairError(f"{row_name}: the key column {name} cannot {is_}", todo="The key stays as it was.")


def _check_old_key(row_name: str, dimension: Dimension, entry: Entry, repaired: RepairedRow) -> None:
    """Raise RepairError where a key change has no old key, or another row has one."""
    wanted = set(dimension.key) if entry.other_key is not None else set()
    if set(repaired.old_key or ()) != wanted:
        raise RepairError(
            f"{row_name}: its old key is not told" if wanted else f"{row_name} has no old key",
            found=f"the key changed from {entry.other_key}" if wanted else "its key does not change",
            todo=f"Under [row.old_key] write {', '.join(dimension.key)}, with their texts before the change."
            if wanted
            else "Remove [row.old_key].",
        )
