"""The plan of a batch of a joined table: which changes of its sources it processes, or that it compares all rows.

Each commit of a joined table notes which commits of its sources it has passed. The next batch continues from there
where every source still remembers all changes since, and otherwise compares all rows. Some earlier commits of each
source are noted as well: after a rollback of the source they show what has changed since.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final, NamedTuple, Self

from lakeward.core.joined.joining import Joining
from lakeward.core.joined.unshown import OmittedRows

_NOTED: Final = 8
"""The number of earlier commits of a source that are noted; each takes some 40 bytes, in every commit."""


class SourceCommit(NamedTuple):
    """A commit of a source: its batch, and the name that its format gives it."""

    batch: int
    commit: str


NO_COMMIT: Final = SourceCommit(0, "")
"""Stands for the commit that is passed of a source whose rows were read and some keys left unchanged."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinProgress:
    """How far a joined table has passed its sources, in the commit that carries its rows.

    `digest` is that of the declaration. `passed` has the commit of each source that the rows were made of, and
    `behind` some commits before that one, newest first (`recent_commits`). `unshown` are the rows of the sources
    that this commit could not show.
    """

    batch: int
    digest: str
    passed: Mapping[str, SourceCommit]
    behind: Mapping[str, Sequence[SourceCommit]] = field(default_factory=dict)
    unshown: OmittedRows = field(default_factory=OmittedRows)

    def known(self, name: str) -> Sequence[SourceCommit]:
        """Return the known commits of a source at the time when it was passed, newest first."""
        return [self.passed[name], *self.behind.get(name, ())] if name in self.passed else []

    def to_json(self) -> str:
        """Return the progress as one line of JSON, small enough for a commit's properties."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the progress that `to_json` wrote; earlier versions wrote no `behind`."""
        values = json.loads(text)
        passed = {name: SourceCommit(*one) for name, one in values["passed"].items()}
        behind = {
            name: tuple(SourceCommit(*one) for one in found) for name, found in values.get("behind", {}).items()
        }
        return cls(
            batch=values["batch"],
            digest=values["digest"],
            passed=passed,
            behind=behind,
            unshown=OmittedRows.of(values.get("unshown", {})),
        )


def recent_commits(line: Sequence[SourceCommit]) -> Sequence[SourceCommit]:
    """Return which earlier commits of a source are noted, from all of its commits, newest first.

    There are no gaps: after a rollback of the source, the newest noted commit that is left is where it was rolled
    back to.
    """
    return tuple(line[1 : _NOTED + 1])


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """The state of a source as a joined table finds it.

    `now` is its newest commit, which is read; `behind` are the commits before it that are to be noted
    (`recent_commits`). It `goes_on` where the commit that was passed is still one of its commits, so that it was
    not rolled back. Otherwise `kept` is the newest of the `known` commits that still is (None: there is none, since
    the table was made again, or it is unknown). Deletes of the batches above `remembers` are all remembered.
    `emptied` is the newest batch with a truncate or a complete full load (0: none). `spliced` is the newest batch
    that put a snapshot between others: the versions that it removed are not remembered. `shows_before` says whether
    rows can be read as of the commit that was passed, or kept.
    """

    now: SourceCommit
    behind: Sequence[SourceCommit] = ()
    goes_on: bool = True
    kept: SourceCommit | None = None
    remembers: int = 0
    emptied: int = 0
    spliced: int = 0
    shows_before: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinPlan:
    """The plan of one batch of a joined table.

    `since` has, for each source whose changes are processed, the batch after which they are. With reasons in
    `whole`, all rows are computed and compared with the stored ones; the changed keys then only date changes.
    Sources in `untold` do not date their changes. A source that was rolled back is not among them where it knows
    its changes since then: all other differences come from the rollback. `before` are the sources whose changed
    rows are also read as they were. `ran` is when the batch was begun, in microseconds since 1970. `is_first` says
    that the table does not exist yet, `is_redeclared` that it was made by another declaration: then no time of its
    sources dates a difference.
    """

    joining: Joining
    progress: JoinProgress
    since: Mapping[str, int] = field(default_factory=dict)
    untold: frozenset[str] = frozenset()
    before: frozenset[str] = frozenset()
    whole: tuple[str, ...] = ()
    ran: int = 0
    is_first: bool = False
    is_redeclared: bool = False

    @property
    def batch(self) -> int:
        """The number of the batch."""
        return self.progress.batch


def plan_join(
    joining: Joining, progress: JoinProgress | None, states: Mapping[str, SourceState], ran: int = 0
) -> JoinPlan | None:
    """Return the plan of a batch of a joined table, or None where its sources have nothing new.

    The table begins when each of its sources has a commit; sources without one have no state.
    """
    if any(name not in states for name in joining.joined.sources):
        return None
    now = {name: states[name].now for name in joining.joined.sources}
    digest = joining.joined.digest
    behind = {name: states[name].behind for name in now}
    if progress is None:
        begun = JoinProgress(batch=1, digest=digest, passed=now, behind=behind)
        return JoinPlan(joining=joining, progress=begun, whole=("nothing stands yet",), ran=ran, is_first=True)
    is_redeclared = progress.digest != digest
    if not is_redeclared and dict(progress.passed) == now:
        return None
    went_on = {name: one for name, one in progress.passed.items() if name in now and one != now[name]}
    reasons = {name: _cannot_tell(joining, name, one, states[name]) for name, one in went_on.items()}
    told = {name: _tells_since(joining, name, one, states[name]) for name, one in went_on.items()}
    since = {name: one.batch for name, one in told.items() if one is not None}
    other = ["it is declared in another way than before"] if is_redeclared else []
    return JoinPlan(
        joining=joining,
        progress=JoinProgress(batch=progress.batch + 1, digest=digest, passed=now, behind=behind),
        since=since,
        untold=frozenset(went_on.keys() - since),
        before=frozenset(name for name in since if joining.needs_before(name)),
        whole=(*other, *(reason for reason in reasons.values() if reason is not None)),
        ran=ran,
        is_redeclared=is_redeclared,
    )


def _cannot_tell(joining: Joining, name: str, passed: SourceCommit, state: SourceState) -> str | None:
    """Return why a source cannot list all changes since it was passed, or None where it can."""
    if passed == NO_COMMIT:
        return f"{name} was read, and keys were left"
    if not state.goes_on:
        return f"{name} was taken back behind batch {passed.batch}, or made anew"
    return _has_lost(joining, name, passed, state)


def _tells_since(joining: Joining, name: str, passed: SourceCommit, state: SourceState) -> SourceCommit | None:
    """Return the commit since which a source can list all its changes, or None.

    That is the commit that was passed or, after a rollback, the one that the source was rolled back to.
    """
    since = passed if state.goes_on else state.kept
    if since is None or passed == NO_COMMIT or _has_lost(joining, name, since, state) is not None:
        return None
    return since


def _has_lost(joining: Joining, name: str, passed: SourceCommit, state: SourceState) -> str | None:
    """Return why a source cannot list all changes since one of its commits, or None where it can."""
    if state.emptied > passed.batch:
        return f"{name} was truncated or loaded anew in batch {state.emptied}"
    if state.spliced > passed.batch:
        return f"{name} took an older snapshot in batch {state.spliced}"
    if state.remembers > passed.batch:
        return f"{name} has forgotten deletes up to batch {state.remembers}, and batch {passed.batch} was passed"
    if joining.needs_before(name) and not state.shows_before:
        return f"{name} cannot be read as it was in batch {passed.batch}"
    return None
