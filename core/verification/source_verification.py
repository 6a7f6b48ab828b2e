"""Verify a table against its source: what two comparisons prove, and what is stored.

A source changes while it is compared, and its changes take time to arrive. So a key that differs is open at first.
It differs for certain if a later comparison finds the same on both sides and, in the meantime, the table has
applied a change behind the first comparison, or more time went by than a change may take (docs/decisions/0017).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import Enum
from typing import Any, Final, Self

from lakeward.core.verification.compared_columns import ComparedColumns
from lakeward.core.verification.row_comparison import MOST_NAMED, Comparison, Difference, Summary
from lakeward.core.verification.source_places import SourcePlace

POLL: Final = 2.0
"""Seconds between two looks at how far a table has come."""


class Outcome(Enum):
    """What is known of a table: it equals its source, it differs for certain, or that is not decided yet."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNDECIDED = "undecided"


class Proof(Enum):
    """Why a difference is certain: the table passed the place of the first comparison, or it lasted too long."""

    PASSED = "passed"
    STOOD = "stood"


@dataclass(frozen=True, slots=True)
class KnownDifference:
    """A difference, when the comparison that found it first began, and the place of the source at its end.

    `since` is in microseconds since 1970. Without a `proof` it is open.
    """

    difference: Difference
    since: int
    place: SourcePlace
    proof: Proof | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceComparison:
    """One comparison: when it began, and the places of the source when its snapshot began and when it ended.

    `at` is in microseconds since 1970. `has_passed` says whether the table had passed a place before it was read;
    None where that is not known.
    """

    at: int
    begins: SourcePlace
    ends: SourcePlace
    comparison: Comparison
    has_passed: Callable[[SourcePlace], bool | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceVerdict:
    """The stored result of the last verification of a table.

    `at` is when it began, in microseconds since 1970. `through` is the place of the source when the table was last
    equal to it, and `through_at` the time of that. `differing` is the number of keys that differ, of which
    `differences` are named.
    """

    at: int
    outcome: Outcome
    source_rows: int
    table_rows: int
    differing: int = 0
    differences: Sequence[KnownDifference] = ()
    through: SourcePlace | None = None
    through_at: int | None = None

    def to_document(self) -> Mapping[str, Any]:
        """Return the verdict as JSON values."""
        listed = [
            {**asdict(difference), "proof": difference.proof and difference.proof.value}
            for difference in self.differences
        ]
        through = None if self.through is None else asdict(self.through)
        numbers = {
            name: getattr(self, name) for name in ("at", "source_rows", "table_rows", "differing", "through_at")
        }
        return {**numbers, "outcome": self.outcome.value, "differences": listed, "through": through}

    @classmethod
    def of_document(cls, content: Mapping[str, Any]) -> Self:
        """Return the verdict of the JSON values of `to_document`."""
        through = content["through"]
        return cls(
            **{
                **content,
                "outcome": Outcome(content["outcome"]),
                "differences": tuple(map(_read_difference, content["differences"])),
                "through": None if through is None else SourcePlace(**through),
            }
        )


def _read_difference(content: Mapping[str, Any]) -> KnownDifference:
    """Return the difference of its JSON values."""
    written, proof = content["difference"], content["proof"]
    sides = Summary(*written["source"]), Summary(*written["table"])
    difference = Difference(written["key"], *sides, written["stamp"])
    place = SourcePlace(**content["place"])
    return KnownDifference(difference, content["since"], place, None if proof is None else Proof(proof))


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceVerification:
    """The result of verifying a table: the verdict, the first comparison, and the number of comparisons.

    `can_pass` says whether it can be known how far the table is in its source.
    """

    verdict: SourceVerdict
    first: Comparison
    columns: ComparedColumns
    comparisons: int = 1
    can_pass: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitPolicy:
    """How long a change may take from the source to the table, and a clock.

    `patience` is in microseconds, None if unknown. `now` returns microseconds since 1970, `sleep` takes seconds.
    """

    patience: int | None
    now: Callable[[], int]
    sleep: Callable[[float], None]


def judge(
    comparison: SourceComparison, before: Mapping[str, KnownDifference], patience: int | None
) -> Sequence[KnownDifference]:
    """Return the differences of a comparison, each with the time it was first found, and its proof if any.

    `before` are those of earlier comparisons, by key. A difference is the same only if both sides are as before and
    no change was applied to the key in between: values may come again. `patience` is in microseconds.
    """
    return [
        _judge_difference(difference, before.get(difference.key), comparison, patience)
        for difference in comparison.comparison.differences
    ]


def _judge_difference(
    difference: Difference, earlier: KnownDifference | None, comparison: SourceComparison, patience: int | None
) -> KnownDifference:
    """Return a difference with its earlier time and a proof, if it is the same as earlier."""
    if earlier is None or earlier.difference != difference:
        return KnownDifference(difference, comparison.at, comparison.ends)
    if comparison.has_passed(earlier.place):
        proof: Proof | None = Proof.PASSED
    elif patience is not None and comparison.at - earlier.since >= patience:
        proof = Proof.STOOD
    else:
        proof = earlier.proof
    return KnownDifference(difference, earlier.since, earlier.place, proof)


def verify(
    compare: Callable[[frozenset[str] | None], SourceComparison],
    columns: ComparedColumns,
    has_passed: Callable[[SourcePlace], bool | None],
    stored: SourceVerdict | None,
    waiting: WaitPolicy,
) -> SourceVerification:
    """Compare a table with its source, and again while differences are open and there is time; return the result.

    `compare` compares the keys of these texts, or all keys for None. `has_passed` asks the table how far it is.
    """
    first = last = compare(None)
    differences = judge(last, _by_key(() if stored is None else stored.differences), waiting.patience)
    unnamed, number, patience = first.comparison.unnamed, 1, waiting.patience or 0
    until = first.at + patience
    # The first comparison may have taken longer than the patience.
    goes_on = waiting.patience is not None
    while goes_on and (unnamed or any(item.proof is None for item in differences)):
        undecided = [item for item in differences if item.proof is None]
        _wait(last, has_passed, min([until, *(item.since + patience for item in undecided)]), waiting)
        # A key that was equal in one comparison counts as equal: its change came later.
        among = None if unnamed else frozenset(item.difference.key for item in undecided)
        last, number = compare(among), number + 1
        judged = judge(last, _by_key(differences), waiting.patience)
        proven = [item for item in differences if item.proof is not None and among is not None]
        differences = [*proven, *judged]
        unnamed, goes_on = last.comparison.unnamed, waiting.now() < until
    verdict = _verdict(first, differences, unnamed, stored)
    return SourceVerification(
        verdict=verdict,
        first=first.comparison,
        columns=columns,
        comparisons=number,
        can_pass=has_passed(first.ends) is not None,
    )


def _wait(
    comparison: SourceComparison, has_passed: Callable[[SourcePlace], bool | None], until: int, waiting: WaitPolicy
) -> None:
    """Wait until the table has passed the end of a comparison or the time is over, at least for a moment."""
    while (remaining := until - waiting.now()) > 0:
        waiting.sleep(min(POLL, remaining / 1_000_000))
        if has_passed(comparison.ends):
            return


def _by_key(differences: Iterable[KnownDifference]) -> Mapping[str, KnownDifference]:
    """Return the differences by key."""
    return {item.difference.key: item for item in differences}


def _verdict(
    first: SourceComparison, differences: Sequence[KnownDifference], unnamed: int, stored: SourceVerdict | None
) -> SourceVerdict:
    """Return the verdict of the first comparison and the known differences."""
    differing = len(differences) + unnamed
    outcome = Outcome.UNDECIDED if differing else Outcome.EQUAL
    if any(item.proof is not None for item in differences):
        outcome = Outcome.DIFFERENT
    through, through_at = (None, None) if stored is None else (stored.through, stored.through_at)
    if outcome is Outcome.EQUAL:
        through, through_at = first.begins, first.at
    return SourceVerdict(
        at=first.at,
        outcome=outcome,
        source_rows=first.comparison.source_rows,
        table_rows=first.comparison.table_rows,
        differing=differing,
        differences=tuple(differences[:MOST_NAMED]),
        through=through,
        through_at=through_at,
    )
