"""Output of `lakeward verify --against source`, and its part in `lakeward status`."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Any, Final

from lakeward.core.dimension import TableName
from lakeward.core.text.numbers import format_count
from lakeward.core.verification.row_comparison import Kind
from lakeward.core.verification.source_places import SourcePlace
from lakeward.core.verification.source_verification import (
    KnownDifference,
    Outcome,
    Proof,
    SourceVerdict,
    SourceVerification,
)
from lakeward.entrypoints.views import documents, terminal
from lakeward.entrypoints.views.safe_text import escaped

EXAMPLES: Final = 5
"""Number of named keys of each kind, unless all are asked for."""

_KINDS: Final = {
    Kind.MISSING: "the source has a row, the table has none",
    Kind.EXTRA: "the table has a row, the source has none",
    Kind.CHANGED: "the values differ",
    Kind.REPEATED: "one side has several rows with this key",
}
_PROOFS: Final = {
    Proof.PASSED: "and the table has applied later changes since",
    Proof.STOOD: "for longer than --wait",
    None: "not decided yet",
}
_OUTCOMES: Final = {
    Outcome.EQUAL: "[green]equal[/]",
    Outcome.DIFFERENT: "[red]different[/]",
    Outcome.UNDECIDED: "[yellow]not decided[/]",
}


def document(name: TableName, verification: SourceVerification) -> Mapping[str, Any]:
    """Return the JSON document of the comparison of a table."""
    verdict, ranges = verification.verdict, verification.first.ranges
    return {
        "table": str(name),
        **verdict_document(verdict),
        "ranges": len(ranges),
        "equal_ranges": sum(verification.is_equal for verification in ranges),
        "comparisons": verification.comparisons,
        "differences": [
            {
                "key": json.loads(item.difference.key),
                "kind": item.difference.kind.value,
                "since": documents.time(item.since),
                "proof": None if item.proof is None else item.proof.value,
            }
            for item in verdict.differences
        ],
        "compared": [column.name for column in verification.columns.columns],
        "not_compared": dict(verification.columns.left_out),
    }


def verdict_document(verdict: SourceVerdict) -> Mapping[str, Any]:
    """Return the JSON document of the verdict that the ledger stores."""
    return {
        "outcome": verdict.outcome.value,
        "at": documents.time(verdict.at),
        "source_rows": verdict.source_rows,
        "table_rows": verdict.table_rows,
        "differing": verdict.differing,
        "verified_through": _place_document(verdict.through),
        "verified_at": documents.time(verdict.through_at),
    }


def _place_document(place: SourcePlace | None) -> Mapping[str, Any] | None:
    return None if place is None else {"time": documents.time(place.time), "log": place.log}


def status_words(verdict: SourceVerdict | None) -> str:
    """Return the words about the last comparison in a line of the status; empty if there was none."""
    if verdict is None:
        return ""
    ago = f"{terminal.ago(verdict.at)} ago"
    match verdict.outcome:
        case Outcome.EQUAL:
            return f"equal to its source {ago}"
        case Outcome.DIFFERENT:
            return f"[red]{format_count(verdict.differing, 'key')} differed from its source {ago}[/]"
        case Outcome.UNDECIDED:
            return f"{format_count(verdict.differing, 'key')} not decided {ago}"


def show(verifications: Sequence[tuple[TableName, SourceVerification]], *, with_keys: bool) -> None:
    """Print one line per table, then differences, columns that were not compared, and the verified position."""
    numbers = ("rows", "rows of the source", "equal ranges", "keys that differ")
    grid = terminal.grid("table", *numbers, "", right=numbers)
    for name, verification in verifications:
        verdict, ranges = verification.verdict, verification.first.ranges
        equal = f"{sum(part.is_equal for part in ranges)} of {len(ranges)}"
        counted = (f"{verdict.table_rows:,}", f"{verdict.source_rows:,}", equal, f"{verdict.differing:,}")
        grid.add_row(escaped(str(name)), *counted, _OUTCOMES[verdict.outcome])
    if verifications:
        terminal.console().print(grid)
    for name, verification in verifications:
        _show_details(name, verification, with_keys=with_keys)


def _show_details(name: TableName, verification: SourceVerification, *, with_keys: bool) -> None:
    out, verdict = terminal.console(), verification.verdict
    lines = list(_differences(verdict, with_keys=with_keys))
    if verdict.outcome is Outcome.EQUAL and verdict.through is not None:
        lines.append(f"verified through {escaped(_words(verdict.through))}")
    if verification.columns.left_out:
        listed = ", ".join(f"{column} ({why})" for column, why in verification.columns.left_out.items())
        lines.append(f"not compared: {escaped(listed)}")
    if verdict.outcome is Outcome.UNDECIDED:
        lines.append(_next_step(name, verification))
    if lines:
        out.print(f"[bold]{escaped(str(name))}[/]")
    for line in lines:
        out.print(f"  {line}", soft_wrap=True)


def _differences(verdict: SourceVerdict, *, with_keys: bool) -> Sequence[str]:
    def kind(item: KnownDifference) -> tuple[bool, str, str]:
        return item.proof is None, _KINDS[item.difference.kind], _PROOFS[item.proof]

    lines = []
    for (_, words, proof), group in groupby(sorted(verdict.differences, key=kind), key=kind):
        some = list(group)
        named = some if with_keys else some[:EXAMPLES]
        lines.append(f"{format_count(len(some), 'key')}: {words}, {proof}")
        lines += [
            f"  {escaped(_key(difference.difference.key))} (since {terminal.local_time(difference.since)})"
            for difference in named
        ]
        lines += [f"  … and {len(some) - len(named):,} more (--keys)"] if len(named) < len(some) else []
    unnamed = verdict.differing - len(verdict.differences)
    return [*lines, *([f"{format_count(unnamed, 'key')} more, which are not named"] if unnamed else [])]


def _key(key: str) -> str:
    return " ".join("NULL" if part is None else str(part) for part in json.loads(key))


def _words(place: SourcePlace) -> str:
    parts = [place.log, None if place.time is None else terminal.local_time(place.time, exact=True)]
    words = " · ".join(part for part in parts if part is not None)
    return words or "the comparison; the database reports no log position"


def _next_step(name: TableName, verification: SourceVerification) -> str:
    command = f"`lakeward verify {escaped(str(name))} --against source`"
    if verification.can_pass:
        return f"These changes may be in transit. Next: {command} after the next runs, or with --wait"
    return (
        "These changes may be in transit, and the table has no position in the log of its source. "
        f"Next: {command} with --wait, for as long as a change may take"
    )
