"""What a batch of a joined table will do: which changes of its sources it takes, or that it is made anew.

A joined table notes in each commit how far it has passed its sources. It goes on from there where every
source still remembers all that was touched since, and else compares all its rows with what it is made of. What
lay behind the commit of a source is noted as well: where it was taken back, that tells what came since then.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Final, NamedTuple, Self

from lakeward.core.joined.joining import Joining
from lakeward.core.joined.unshown import Unshown

_NOTED: Final = 8
"""How many commits of a source are noted behind the one that was passed; of each some 40 bytes, in every commit."""


class Passed(NamedTuple):
    """A commit of a source that a joined table has taken: its batch, and how its format names it."""

    batch: int
    commit: str


NONE_PASSED: Final = Passed(0, "")
"""What is passed of a source whose rows were read, and some left: none of its commits."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinProgress:
    """How far a joined table is, in the commit that carries its rows; `digest` is that of its declaration.

    Of each source `behind` are commits that the one which it `passed` was made of, the newest first (`noted`).
    `unshown` is what it cannot show of the rows that this commit was made of.
    """

    batch: int
    digest: str
    passed: Mapping[str, Passed]
    behind: Mapping[str, Sequence[Passed]] = field(default_factory=dict)
    unshown: Unshown = field(default_factory=Unshown)

    def known(self, name: str) -> Sequence[Passed]:
        """Return the commits that a source is known to have been made of when it was passed, the newest first."""
        return [self.passed[name], *self.behind.get(name, ())] if name in self.passed else []

    def to_json(self) -> str:
        """Return the progress as one line of JSON, small enough for a commit's properties."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Read what `to_json` wrote; before it noted what lay behind, that was nothing."""
        values = json.loads(text)
        passed = {name: Passed(*one) for name, one in values["passed"].items()}
        behind = {name: tuple(Passed(*one) for one in found) for name, found in values.get("behind", {}).items()}
        return cls(
            batch=values["batch"],
            digest=values["digest"],
            passed=passed,
            behind=behind,
            unshown=Unshown.of(values.get("unshown", {})),
        )


def noted(line: Sequence[Passed]) -> Sequence[Passed]:
    """Return which of the commits that a source is made of, newest first, are noted as behind the newest.

    None between them is left out: where the source is taken back, the newest that is left is where it parted.
    """
    return tuple(line[1 : _NOTED + 1])


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """A source as a joined table finds it.

    `now` is its newest commit, the one that is read, and `behind` are those of which it is made that are to be
    `noted`. It `goes_on` where the commit that was passed is behind that one: it was not taken back. Else `kept` is
    the newest of those that are `known` which still is (None: none is; it was made anew, or nobody can tell).
    Deletes of the batches above `remembers` are all remembered; `emptied` is the newest batch with a truncate or a
    complete full load (0: none), `spliced` the newest that put a snapshot between others: the versions that this
    took out are not remembered. `shows_before` says whether rows can be read as they were at the commit that was
    passed, or kept.
    """

    now: Passed
    behind: Sequence[Passed] = ()
    goes_on: bool = True
    kept: Passed | None = None
    remembers: int = 0
    emptied: int = 0
    spliced: int = 0
    shows_before: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinPlan:
    """Everything that one batch will do to a joined table.

    Of each source of `since`, the keys that it touched above that batch are taken. With reasons in `whole`, all
    rows are made anew and what stands is compared; then these keys only tell when something changed. Sources
    that are `untold` do not tell when that was. One that was taken back is none where it tells what it touched
    since then: what else is otherwise there was taken back, and did not change.
    `before` are those whose touched rows must be read as they were as well. `ran` is when the batch was begun,
    in microseconds since 1970; `is_first` says that nothing stands yet, `is_redeclared` that what stands was
    declared in another way: then no time of its sources says since when a row shows something else.
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
    """Decide what a batch of a joined table will do; None where its sources have nothing that it has not passed.

    It begins when each of its sources stands: those without a commit have no state.
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


def _cannot_tell(joining: Joining, name: str, passed: Passed, state: SourceState) -> str | None:
    """Say why a source does not tell all that was touched since it was passed, or return None where it does."""
    if passed == NONE_PASSED:
        return f"{name} was read, and keys were left"
    if not state.goes_on:
        return f"{name} was taken back behind batch {passed.batch}, or made anew"
    return _has_lost(joining, name, passed, state)


def _tells_since(joining: Joining, name: str, passed: Passed, state: SourceState) -> Passed | None:
    """Return the commit since which a source tells all that it touched, or None where it tells of none.

    That is the one that was passed or, where it was taken back, the one up to which it was.
    """
    since = passed if state.goes_on else state.kept
    if since is None or passed == NONE_PASSED or _has_lost(joining, name, since, state) is not None:
        return None
    return since


def _has_lost(joining: Joining, name: str, passed: Passed, state: SourceState) -> str | None:
    """Say why a source does not tell all that it touched since a commit that is behind it, or return None."""
    if state.emptied > passed.batch:
        return f"{name} was truncated or loaded anew in batch {state.emptied}"
    if state.spliced > passed.batch:
        return f"{name} took an older snapshot in batch {state.spliced}"
    if state.remembers > passed.batch:
        return f"{name} has forgotten deletes up to batch {state.remembers}, and batch {passed.batch} was passed"
    if joining.needs_before(name) and not state.shows_before:
        return f"{name} cannot be read as it was in batch {passed.batch}"
    return None
