"""Verification of a table against its source: what two comparisons prove, and what is kept of it.

A source goes on while it is compared, and its changes take time to arrive. A key that differs is therefore open at
first. It differs for certain where a later comparison finds the same on both sides, and the table has applied a
change behind the first comparison meanwhile, or longer went by than a change may take
(docs/decisions/0017).
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
"""Seconds between two looks at how far a table is."""


class Outcome(Enum):
    """What is known of a table: it is equal to its source, it differs for certain, or that is not decided yet."""

    EQUAL = "equal"
    DIFFERENT = "different"
    UNDECIDED = "undecided"


class Proof(Enum):
    """Why a difference is certain: the table passed the place of the first comparison, or it stood for too long."""

    PASSED = "passed"
    STOOD = "stood"


@dataclass(frozen=True, slots=True)
class KnownDifference:
    """A difference, when the comparison began that found it first, and where the source was at its end.

    `since` is in microseconds since 1970. Without a `proof` it is open.
    """

    difference: Difference
    since: int
    place: SourcePlace
    proof: Proof | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceComparison:
    """One comparison: when it began, and where the source was when its snapshot began and when all was compared.

    `has_passed` says of a place whether the table had passed it before it was read (None: nothing tells).
    """

    at: int
    begins: SourcePlace
    ends: SourcePlace
    found: Comparison
    has_passed: Callable[[SourcePlace], bool | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceVerdict:
    """What is kept of the last verification of a table.

    It began `at` that time, in microseconds since 1970. `through` is where the source was when the table was last
    found equal to it, `through_at` when that was. So many keys are `differing`, of which `differences` are named.
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
        """Return it as what JSON can hold."""
        listed = [{**asdict(one), "proof": one.proof and one.proof.value} for one in self.differences]
        through = None if self.through is None else asdict(self.through)
        own = {name: getattr(self, name) for name in ("at", "source_rows", "table_rows", "differing", "through_at")}
        return {**own, "outcome": self.outcome.value, "differences": listed, "through": through}

    @classmethod
    def of_document(cls, content: Mapping[str, Any]) -> Self:
        """Read what `to_document` returned."""
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
    found, proof = content["difference"], content["proof"]
    sides = Summary(*found["source"]), Summary(*found["table"])
    difference = Difference(found["key"], *sides, found["stamp"])
    place = SourcePlace(**content["place"])
    return KnownDifference(difference, content["since"], place, None if proof is None else Proof(proof))


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceVerification:
    """What verifying a table found: the verdict, the first comparison, and the number of comparisons.

    `can_pass` says whether anything tells how far the table is in its source.
    """

    verdict: SourceVerdict
    first: Comparison
    columns: ComparedColumns
    comparisons: int = 1
    can_pass: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class WaitPolicy:
    """How long a change may take from its source into the table, in microseconds (None: nobody says); a clock."""

    patience: int | None
    now: Callable[[], int]
    sleep: Callable[[float], None]


def judge(
    comparison: SourceComparison, before: Mapping[str, KnownDifference], patience: int | None
) -> Sequence[KnownDifference]:
    """Return the differences of a comparison, each with since when it is there, and a proof where there is one.

    `before` are those of earlier comparisons, by key. One counts as the same only if both sides are as they were,
    and no change was applied to the key in between: values may come again.
    """
    return [_judged(one, before.get(one.key), comparison, patience) for one in comparison.found.differences]


def _judged(
    found: Difference, earlier: KnownDifference | None, comparison: SourceComparison, patience: int | None
) -> KnownDifference:
    if earlier is None or earlier.difference != found:
        return KnownDifference(found, comparison.at, comparison.ends)
    if comparison.has_passed(earlier.place):
        proof: Proof | None = Proof.PASSED
    elif patience is not None and comparison.at - earlier.since >= patience:
        proof = Proof.STOOD
    else:
        proof = earlier.proof
    return KnownDifference(found, earlier.since, earlier.place, proof)


def verify(
    compare: Callable[[frozenset[str] | None], SourceComparison],
    columns: ComparedColumns,
    has_passed: Callable[[SourcePlace], bool | None],
    kept: SourceVerdict | None,
    waiting: WaitPolicy,
) -> SourceVerification:
    """Compare a table with its source, again while differences are open and there is time, and judge.

    `compare` looks at the keys of these texts alone, or at all keys. `has_passed` asks the table how far it is.
    """
    first = last = compare(None)
    known = judge(last, _by_key(() if kept is None else kept.differences), waiting.patience)
    unnamed, number, patience = first.found.unnamed, 1, waiting.patience or 0
    until = first.at + patience
    while (unnamed or any(one.proof is None for one in known)) and waiting.now() < until:
        undecided = [one for one in known if one.proof is None]
        _wait(last, has_passed, min([until, *(one.since + patience for one in undecided)]), waiting)
        # A key that was equal in one comparison counts as equal: what changed it came later.
        among = None if unnamed else frozenset(one.difference.key for one in undecided)
        last, number = compare(among), number + 1
        again = judge(last, _by_key(known), waiting.patience)
        proven = [one for one in known if one.proof is not None and among is not None]
        known = [*proven, *again]
        unnamed = last.found.unnamed
    verdict = _verdict(first, known, unnamed, kept)
    return SourceVerification(
        verdict=verdict,
        first=first.found,
        columns=columns,
        comparisons=number,
        can_pass=has_passed(first.ends) is not None,
    )


def _wait(
    comparison: SourceComparison, has_passed: Callable[[SourcePlace], bool | None], until: int, waiting: WaitPolicy
) -> None:
    """Wait until the table has passed the end of a comparison, or there is no time left; for a moment at least."""
    while (left := until - waiting.now()) > 0:
        waiting.sleep(min(POLL, left / 1_000_000))
        if has_passed(comparison.ends):
            return


def _by_key(known: Iterable[KnownDifference]) -> Mapping[str, KnownDifference]:
    return {one.difference.key: one for one in known}


def _verdict(
    first: SourceComparison, known: Sequence[KnownDifference], unnamed: int, kept: SourceVerdict | None
) -> SourceVerdict:
    differing = len(known) + unnamed
    outcome = Outcome.UNDECIDED if differing else Outcome.EQUAL
    if any(one.proof is not None for one in known):
        outcome = Outcome.DIFFERENT
    through, through_at = (None, None) if kept is None else (kept.through, kept.through_at)
    if outcome is Outcome.EQUAL:
        through, through_at = first.begins, first.at
    return SourceVerdict(
        at=first.at,
        outcome=outcome,
        source_rows=first.found.source_rows,
        table_rows=first.found.table_rows,
        differing=differing,
        differences=tuple(known[:MOST_NAMED]),
        through=through,
        through_at=through_at,
    )
