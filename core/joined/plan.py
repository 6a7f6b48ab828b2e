"""What a batch of a joined table will do: which changes of its sources it takes, or that it is made anew.

A joined table notes in each commit how far it has passed its sources. It goes on from there where every
source still remembers all that was touched since, and else compares all its rows with what it is made of.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final, NamedTuple, Self

from lakeward.core.joined.joining import Joining
from lakeward.core.joined.unshown import Unshown


class Passed(NamedTuple):
    """A commit of a source that a joined table has taken: its batch, and how its format names it."""

    batch: int
    commit: str


NONE_PASSED: Final = Passed(0, "")
"""What is passed of a source whose rows were read, and some left: none of its commits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinProgress:
    """How far a joined table is, in the commit that carries its rows; `digest` is that of its declaration.

    `unshown` is what it cannot show of the rows that this commit was made of.
    """

    batch: int
    digest: str
    passed: Mapping[str, Passed]
    unshown: Unshown = field(default_factory=Unshown)

    def to_json(self) -> str:
        """Return the progress as one line of JSON, small enough for a commit's properties."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote."""
        values = json.loads(text)
        passed = {name: Passed(*one) for name, one in values["passed"].items()}
        unshown = Unshown.of(values.get("unshown", {}))
        return cls(batch=values["batch"], digest=values["digest"], passed=passed, unshown=unshown)


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """A source as a joined table finds it.

    `now` is its newest commit, the one that is read. It `goes_on` where the commit that was passed is behind
    that one: it was not taken back. Deletes of the batches above `remembers` are all remembered; `emptied` is
    the newest batch with a truncate or a complete full load (0: none), `spliced` the newest that put a snapshot
    between others: the versions that this took out are not remembered. `shows_before` says whether rows can be
    read as they were at the commit that was passed.
    """

    now: Passed
    goes_on: bool = True
    remembers: int = 0
    emptied: int = 0
    spliced: int = 0
    shows_before: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinPlan:
    """Everything that one batch will do to a joined table.

    Of each source of `since`, the keys that it touched above that batch are taken. With reasons in `whole`, all
    rows are made anew and what stands is compared; then these keys only tell when something changed. Sources
    that are `untold` do not tell when that was; one that was taken back is none, for nothing changed there, unless
    it remembers that it was emptied.
    `before` are those whose touched rows must be read as they were as well. `ran` is when the batch was begun,
    in microseconds since 1970; `is_first` says that nothing stands yet.
    """

    joining: Joining
    progress: JoinProgress
    since: Mapping[str, int] = field(default_factory=dict)
    untold: frozenset[str] = frozenset()
    before: frozenset[str] = frozenset()
    whole: tuple[str, ...] = ()
    ran: int = 0
    is_first: bool = False

    @property
    def batch(self) -> int:
        """The number of the batch."""
        return self.progress.batch


def plan_join(
    joining: Joining, progress: JoinProgress | None, states: Mapping[str, SourceState], ran: int = 0
) -> JoinPlan | None:
    """Decide what a batch of a joined table will do; None where its sources have nothing that it has not passed.

    It begins when each of its sources stands: those without a commit have no state.
    """
    if any(name not in states for name in joining.joined.sources):
        return None
    now = {name: states[name].now for name in joining.joined.sources}
    digest = joining.joined.digest
    if progress is None:
        begun = JoinProgress(batch=1, digest=digest, passed=now)
        return JoinPlan(joining=joining, progress=begun, whole=("nothing stands yet",), ran=ran, is_first=True)
    if progress.digest == digest and dict(progress.passed) == now:
        return None
    went_on = {name: one for name, one in progress.passed.items() if name in now and one != now[name]}
    reasons = {name: _cannot_tell(joining, name, one, states[name]) for name, one in went_on.items()}
    since = {name: one.batch for name, one in went_on.items() if reasons[name] is None}
    other = [] if progress.digest == digest else ["it is declared in another way than before"]
    return JoinPlan(
        joining=joining,
        progress=JoinProgress(batch=progress.batch + 1, digest=digest, passed=now),
        since=since,
        untold=frozenset(name for name in went_on if name not in since and _may_have_emptied(states[name])),
        before=frozenset(name for name in since if joining.needs_before(name)),
        whole=(*other, *(reason for reason in reasons.values() if reason is not None)),
        ran=ran,
    )


def _may_have_emptied(state: SourceState) -> bool:
    """Whether rows may have gone since a source was passed, with nothing that tells when.

    One that was taken back did not change, unless it was emptied behind that: by which of its batches it was, its
    numbers do not tell.
    """
    return state.goes_on or state.emptied > 0


def _cannot_tell(joining: Joining, name: str, passed: Passed, state: SourceState) -> str | None:
    """Say why a source does not tell all that was touched since it was passed, or return None where it does."""
    if passed == NONE_PASSED:
        return f"{name} was read, and keys were left"
    if not state.goes_on:
        return f"{name} was taken back behind batch {passed.batch}, or made anew"
    if state.emptied > passed.batch:
        return f"{name} was truncated or loaded anew in batch {state.emptied}"
    if state.spliced > passed.batch:
        return f"{name} took an older snapshot in batch {state.spliced}"
    if state.remembers > passed.batch:
        return f"{name} has forgotten deletes up to batch {state.remembers}, and batch {passed.batch} was passed"
    if joining.needs_before(name) and not state.shows_before:
        return f"{name} cannot be read as it was in batch {passed.batch}"
    return None
