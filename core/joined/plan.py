"""The plan of a batch of a joined table: which changes of its sources it processes, or that it compares all rows.

Each commit of a joined table notes which commits of its sources it has passed. The next batch continues from there
where every source still remembers all changes since, and otherwise compares all rows. So does each batch of a
history of histories.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Final, NamedTuple, Self

from lakeward.core.joined.join_definition import JoinDefinition
from lakeward.core.joined.omitted_rows import OmittedRows
from lakeward.core.progress import Progress


class SourceCommit(NamedTuple):
    """A commit of a source: its batch, and the name that its format gives it."""

    batch: int
    commit: str


BEYOND_OPEN_END: Final = "a version begins or ends at the open end, or behind it"
"""Why a key is left unchanged whose versions cannot be shown."""

OVER_TIME: Final = "it is a history of histories"
"""Why all rows of a joined table are rebuilt whenever one of its sources has changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinProgress:
    """How far a joined table has passed its sources, in the commit that carries its rows.

    `digest` is that of the declaration. `passed` has the commit of each source that the rows were made of; it is
    empty where keys were left unchanged by the first batch. `unshown` are the rows of the sources that this commit
    could not show.
    """

    batch: int
    digest: str
    passed: Mapping[str, SourceCommit]
    unshown: OmittedRows = field(default_factory=OmittedRows)

    def to_json(self) -> str:
        """Return the progress as one line of JSON, small enough for a commit's properties."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def of(cls, progress: Progress) -> Self | None:
        """Return the progress that a commit carries, or None where it is of no joined table."""
        return None if progress.joined is None else cls.from_json(progress.joined)

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Return the progress that `to_json` wrote."""
        values = json.loads(text)
        return cls(
            batch=values["batch"],
            digest=values["digest"],
            passed={name: SourceCommit(*one) for name, one in values["passed"].items()},
            unshown=OmittedRows(**values.get("unshown", {})),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceState:
    """The state of a source as a joined table finds it.

    `now` is its newest commit, which is read. `has_passed` says whether the commit that was passed is still one of
    its commits and can be read; it is not after a rollback, after the table was dropped, or where its snapshot has
    expired. Deletes of the batches above `remembers` are all remembered. `replaced` is the newest batch that
    replaced rows without remembering them: a truncate, a complete full load or an older snapshot (0: none).
    """

    now: SourceCommit
    has_passed: bool = True
    remembers: int = 0
    replaced: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class JoinPlan:
    """The plan of one batch of a joined table.

    `since` has, for each source whose changes are processed, the batch after which they are. With reasons in
    `reasons`, all rows are computed and compared with the stored ones, and no changes are read. `ran` is when the
    batch was begun, in microseconds since 1970. `is_first` says that the table does not exist yet.
    """

    joining: JoinDefinition
    progress: JoinProgress
    since: Mapping[str, int] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    ran: int = 0
    is_first: bool = False

    @property
    def batch(self) -> int:
        """The number of the batch."""
        return self.progress.batch


def plan_join(
    joining: JoinDefinition, progress: JoinProgress | None, states: Mapping[str, SourceState], ran: int = 0
) -> JoinPlan | None:
    """Return the plan of a batch of a joined table, or None where its sources have nothing new.

    The table begins when each of its sources has a commit; sources without one have no state.
    """
    if any(name not in states for name in joining.joined.sources):
        return None
    now = {name: states[name].now for name in joining.joined.sources}
    digest = joining.joined.digest
    if progress is None:
        begun = JoinProgress(batch=1, digest=digest, passed=now)
        return JoinPlan(joining=joining, progress=begun, reasons=("it has no rows yet",), ran=ran, is_first=True)
    is_redeclared = progress.digest != digest
    if not is_redeclared and dict(progress.passed) == now:
        return None
    reasons = ["it is declared in another way than before"] if is_redeclared else []
    reasons += [OVER_TIME] if joining.over_time else []
    reasons += [] if progress.passed else ["its first batch left keys unchanged"]
    passed = {name: one for name, one in progress.passed.items() if one != now.get(name)}
    if not reasons:
        gaps = [_gap(name, one, states[name]) for name, one in passed.items()]
        reasons = [gap for gap in gaps if gap is not None]
    return JoinPlan(
        joining=joining,
        progress=JoinProgress(batch=progress.batch + 1, digest=digest, passed=now),
        since={} if reasons else {name: one.batch for name, one in passed.items()},
        reasons=tuple(reasons),
        ran=ran,
    )


def _gap(name: str, passed: SourceCommit, state: SourceState) -> str | None:
    """Return why a source cannot list all changes since it was passed, or None where it can."""
    if not state.has_passed:
        return f"batch {passed.batch} of {name} was rolled back, dropped or has expired"
    if state.replaced > passed.batch:
        return f"{name} was truncated, loaded anew or took an older snapshot in batch {state.replaced}"
    if state.remembers > passed.batch:
        return f"{name} has forgotten deletes up to batch {state.remembers}, and batch {passed.batch} was passed"
    return None
