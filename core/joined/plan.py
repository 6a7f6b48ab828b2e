"""What a batch of a joined table will do: which changes of its sources it takes, or that it is made anew.

A joined table notes in each commit how far it has passed its sources. It goes on from there where every
source still remembers all that was touched since, and else compares all its rows with what it is made of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from lakeward.core.dimension import TableName
from lakeward.core.joined.joining import Joining


class Passed(NamedTuple):
    """A commit of a source that a joined table has taken: its batch, and how its format names it."""

    batch: int
    commit: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinProgress:
    """How far a joined table is, in the commit that carries its rows; `digest` is that of its declaration."""

    batch: int
    digest: str
    passed: Mapping[str, Passed]


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """A source as a joined table finds it.

    `now` is its newest commit, the one that is read. It `goes_on` where the commit that was passed is behind
    that one: it was not taken back. Deletes of the batches above `remembers` are all remembered; `emptied` is
    the newest batch with a truncate or a complete full load (0: none). `shows_before` says whether rows can be
    read as they were at the commit that was passed.
    """

    now: Passed
    goes_on: bool = True
    remembers: int = 0
    emptied: int = 0
    shows_before: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinPlan:
    """Everything that one batch will do to a joined table.

    Of each source of `since`, the keys that it touched above that batch are taken; with reasons in `whole`, all
    rows are made anew, and what stands is compared. `before` are the sources whose touched rows must be read as
    they were as well. `ran` is when the batch was begun, in microseconds since 1970; `is_first` says that
    nothing stands yet.
    """

    joining: Joining
    progress: JoinProgress
    since: Mapping[str, int] = field(default_factory=dict)
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
    following = JoinProgress(batch=progress.batch + 1, digest=digest, passed=now)
    whole = tuple(_reasons(joining, progress, states))
    if whole:
        return JoinPlan(joining=joining, progress=following, whole=whole, ran=ran)
    since = {name: passed.batch for name, passed in progress.passed.items() if passed != now[name]}
    before = frozenset(name for name in since if joining.needs_before(name))
    return JoinPlan(joining=joining, progress=following, since=since, before=before, ran=ran)


def kept_above(table: TableName, passed: Iterable[Mapping[TableName, int]]) -> int | None:
    """Return the batch of a table above which its deletes must be remembered, or None where none has to be.

    `passed` says of each table that is made of others how far it has passed them.
    """
    return min((batches[table] for batches in passed if table in batches), default=None)


def _reasons(joining: Joining, progress: JoinProgress, states: Mapping[str, SourceState]) -> Iterable[str]:
    """Say why the touched keys alone do not tell what has to be made anew."""
    if progress.digest != joining.joined.digest:
        yield "it is declared in another way than before"
        return
    for name, passed in progress.passed.items():
        state = states[name]
        if passed == state.now:
            continue
        if not state.goes_on:
            yield f"{name} was taken back behind batch {passed.batch}"
        elif state.emptied > passed.batch:
            yield f"{name} was truncated or loaded anew in batch {state.emptied}"
        elif state.remembers > passed.batch:
            yield f"{name} has forgotten deletes up to batch {state.remembers}, and batch {passed.batch} was passed"
        elif joining.needs_before(name) and not state.shows_before:
            yield f"{name} cannot be read as it was in batch {passed.batch}"
