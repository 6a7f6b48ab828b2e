"""The law of a joined history of mirrors: it keeps its versions, whatever happens to its sources."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random
from typing import Any

from joined_commits import Source, ways_of
from joined_laws import COLUMNS, Image, Lake, check_whole, model, random_mirror, tables_of

from lakeward.core.events import Key
from lakeward.core.history.options import History
from lakeward.core.history.versions import Versions
from lakeward.core.joined.check import validate_joined
from lakeward.core.joined.declaration import Function
from lakeward.core.joined.declaration import Source as Joins
from lakeward.core.joined.plan import JoinPlan, SourceCommit, plan_join
from lakeward.core.joined.rows import RowsBySource, SourceRow
from lakeward.core.joined.touched_keys import SourceChange, SourceChanges

ENDS = (Function.MIN, Function.MAX)


@dataclass
class Dated(Source):
    """A source whose commits have times, as those of changes do, or none, as those of full loads."""

    clock: Iterator[int] = field(default_factory=count)
    random: Random = field(default_factory=Random)
    loads: float = 0
    times: dict[int, int | None] = field(default_factory=dict)
    seen: frozenset[SourceCommit] = frozenset()
    rows_at: dict[SourceCommit, Sequence[Image]] = field(default_factory=dict)

    def commit(self, batch: int, *given: Any, **how: Any) -> None:
        time = next(self.clock)
        self.times[batch] = None if self.random.random() < self.loads else time
        super().commit(batch, *given, **how)
        self.rows_at[self.now.passed] = [row for row, _ in self.now.rows.values()]

    @property
    def is_rolled_back(self) -> bool:
        """Whether a commit that was joined last is no longer one of its commits."""
        return not self.seen <= self.now.lineage

    def rows_before(self) -> Sequence[Image]:
        """Return the rows that were joined last, without what was rolled back of them since then."""
        return self.rows_at[max(self.now.lineage & self.seen or self.seen)]

    def rows(self) -> Mapping[Key, list[SourceRow]]:
        """Return its rows, with their times."""
        return {key: [SourceRow(row, self.times[batch])] for key, (row, batch) in self.now.rows.items()}

    def touched(self, since: int, *, before: bool) -> Mapping[Key, SourceChange]:
        """Return the keys that batches above `since` changed, with the newest known time of each change."""
        batches = {key: [batch] for key, batch in self.now.deletes.items()}
        for key, (_, batch) in self.now.rows.items():
            batches.setdefault(key, []).append(batch)
        times = {key: [self.times[batch] for batch in of if batch > since] for key, of in batches.items()}
        newest = {key: max((time for time in of if time is not None), default=None) for key, of in times.items()}
        changes = super().touched(since, before=before)
        return {key: replace(one, instant=newest[key]) for key, one in changes.items()}


@dataclass
class Follower:
    """A joined history of such sources, and the time of its last refresh."""

    lake: Lake
    sources: Mapping[str, Dated]
    ran: int = -1

    def plan(self, ran: int) -> JoinPlan | None:
        """Return the plan of what the sources have now."""
        progress = None if self.lake.plan is None else self.lake.plan.progress
        passed = {} if progress is None else progress.passed
        states = {name: one.state(passed.get(name)) for name, one in self.sources.items()}
        return plan_join(self.lake.joining, progress, states, ran)

    def read(self, plan: JoinPlan) -> tuple[RowsBySource, SourceChanges]:
        """Return the rows of the sources, and their changes."""
        changes = {n: self.sources[n].touched(batch, before=n in plan.before) for n, batch in plan.since.items()}
        return {name: one.rows() for name, one in self.sources.items()}, changes

    def refresh(self, ran: int) -> None:
        """Join what the sources have now; versions up to the last refresh stay, unless they were rolled back."""
        before, last, plan = self.lake.stored(), self.ran, self.plan(ran)
        stays = before if plan is None or plan.is_first else {key: before[key] for key in self.kept_keys()}
        self.ran = ran
        if plan is not None:
            self.lake.commit(plan, self.lake.joined(plan, *self.read(plan)))
            check_whole(self.lake.joining, self.lake)
            check_past(stays, self.lake.stored(), last if self.dates_each_change(plan) else None)
        for source in self.sources.values():
            source.seen = source.now.lineage
        now = {name: [row for row, _ in one.now.rows.values()] for name, one in self.sources.items()}
        assert self.lake.current() == model(self.lake.joining, lambda name: now[name])

    def redeclare(self, random: Random) -> None:
        """Declare that its columns are made of other columns; the key stays."""
        joining = self.lake.joining
        sources = {
            name: redeclared(random, one, COLUMNS[name], joining.dimension.key)
            for name, one in joining.joined.sources.items()
        }
        self.lake.joining = validate_joined(replace(joining.joined, sources=sources), tables_of())

    def kept_keys(self) -> Collection[Key]:
        """Return the keys that show nothing that was rolled back since the last refresh."""
        before, shown = self.lake.stored(), self.lake.current()
        if not any(source.is_rolled_back for source in self.sources.values()):
            return before.keys()
        unchanged = model(self.lake.joining, lambda name: self.sources[name].rows_before())
        return [key for key in before if shown.get(key) == unchanged.get(key)]

    def dates_each_change(self, plan: JoinPlan) -> bool:
        """Whether a row dates itself. One of several rows may be newer than the stored version, and not new."""
        joining = self.lake.joining
        return not any(joining.is_grouped(name) for name in joining.joined.sources if plan.whole)


def redeclared(random: Random, source: Joins, columns: Sequence[str], key: Sequence[str]) -> Joins:
    """Return a source of which other columns are taken or, of groups, the least or the most."""
    sums = {
        own: replace(of, function=random.choice(ENDS)) if of.function in ENDS else of
        for own, of in source.aggregates.items()
    }
    kept = {own for own in source.columns if own in key or sums}
    selection = {own: of if own in kept else random.choice(columns) for own, of in source.columns.items()}
    return replace(source, columns=selection, aggregates=sums)


def check_past(before: Mapping[Key, Versions], now: Mapping[Key, Versions], last: int | None) -> None:
    """Each earlier version is still there; one that ends now ends after the last refresh, if that is given."""
    for key, versions in before.items():
        found = {one.valid_from: one for one in now.get(key, ())}
        for one in versions:
            other = found.pop(one.valid_from)
            assert other.cells == one.cells
            assert other.valid_to == one.valid_to or one.valid_to is None
            if last is not None and other.valid_to != one.valid_to:
                assert other.valid_to is not None
                assert other.valid_to > last
        assert last is None or all(one.valid_from > last for one in found.values())


def check_past_of_commits(random: Random) -> None:
    """Whatever happened to its sources since it was refreshed, a joined history of mirrors keeps its past."""
    joining, clock = validate_joined(replace(random_mirror(random), history=History()), tables_of()), count(1)
    loads = {name: random.choice([0, 0, 0.3, 1]) for name in joining.joined.sources}
    sources = {name: Dated(name, clock=clock, random=random, loads=loads[name]) for name in loads}
    for source in sources.values():
        source.commit(1, {}, {})
    follower, ways = Follower(Lake(joining), sources), ways_of(random)
    for _ in range(random.randrange(1, 60)):
        random.choice([*sources.values()]).change(random, ways)
        if random.random() < 0.03:
            follower.redeclare(random)
        if random.random() < 0.3:
            follower.refresh(next(clock))
