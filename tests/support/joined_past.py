"""Mirrors that commit on their own, forget and are emptied: a joined history keeps what it told of them."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random
from typing import Any

from joined_commits import RARE, Source
from joined_laws import COLUMNS, Image, Lake, check_whole, drawn, model, tables_of

from lakeward.core.events import Key
from lakeward.core.history.options import History
from lakeward.core.history.versions import Versions
from lakeward.core.joined.check import validate_joined
from lakeward.core.joined.declared import Function
from lakeward.core.joined.declared import Source as Joins
from lakeward.core.joined.plan import JoinPlan, SourceCommit, plan_join
from lakeward.core.joined.rows import RowsBySource, SourceRow
from lakeward.core.joined.touched import SourceChange, SourceChanges

ENDS = (Function.MIN, Function.MAX)


@dataclass
class Dated(Source):
    """A source whose commits have times, as what a change brought has, or none, as what a full load did."""

    clock: Iterator[int] = field(default_factory=count)
    random: Random = field(default_factory=Random)
    loads: float = 0
    times: dict[int, int | None] = field(default_factory=dict)
    emptying: set[SourceCommit] = field(default_factory=set)
    seen: frozenset[SourceCommit] = frozenset()
    stood: dict[SourceCommit, Sequence[Image]] = field(default_factory=dict)

    def commit(self, batch: int, *given: Any, **how: Any) -> None:
        time = next(self.clock)
        self.times[batch] = None if self.random.random() < self.loads else time
        super().commit(batch, *given, **how)
        self.stood[self.now.passed] = [row for row, _ in self.now.rows.values()]
        if how.get("emptied"):
            self.emptying.add(self.now.passed)

    def was_emptied(self) -> bool:
        """Whether it was emptied or made anew since it was joined last, whatever it was taken back to before."""
        return self.now.line.isdisjoint(self.seen) or not self.emptying.isdisjoint(self.now.line - self.seen)

    def told(self) -> Sequence[Image]:
        """Return the rows that were joined last, without what was taken back of them since then."""
        return self.stood[max(self.now.line & self.seen or self.seen)]

    def rows(self) -> Mapping[Key, list[SourceRow]]:
        """Return its rows, with their times."""
        return {key: [SourceRow(row, self.times[batch])] for key, (row, batch) in self.now.rows.items()}

    def touched(self, since: int, *, before: bool) -> Mapping[Key, SourceChange]:
        """Return what was touched above a batch, with the newest time that is known of it."""
        found = {key: [batch] for key, batch in self.now.deletes.items()}
        for key, (_, batch) in self.now.rows.items():
            found.setdefault(key, []).append(batch)
        times = {key: [self.times[batch] for batch in of if batch > since] for key, of in found.items()}
        newest = {key: max((time for time in of if time is not None), default=None) for key, of in times.items()}
        touched = super().touched(since, before=before)
        return {key: replace(one, instant=newest[key]) for key, one in touched.items()}


@dataclass
class Follower:
    """A joined history of such sources, and when it was joined last."""

    lake: Lake
    sources: Mapping[str, Dated]
    ran: int = -1

    def plan(self, ran: int) -> JoinPlan | None:
        """Return the plan of what the sources have now."""
        progress = None if self.lake.plan is None else self.lake.plan.progress
        known = {name: () if progress is None else progress.known(name) for name in self.sources}
        states = {name: one.state(known[name]) for name, one in self.sources.items()}
        return plan_join(self.lake.joining, progress, states, ran)

    def read(self, plan: JoinPlan) -> tuple[RowsBySource, SourceChanges]:
        """Return the rows of the sources, and what they touched."""
        told = {n: self.sources[n].touched(batch, before=n in plan.before) for n, batch in plan.since.items()}
        return {name: one.rows() for name, one in self.sources.items()}, told

    def follow(self, ran: int) -> None:
        """Join what the sources have now; what was told up to the run before stays, but for what was taken back."""
        before, last, plan = self.lake.standing(), self.ran, self.plan(ran)
        stays = before if plan is None or plan.is_first else {key: before[key] for key in self.keeps(plan)}
        self.ran = ran
        if plan is not None:
            self.lake.commit(plan, self.lake.joined(plan, *self.read(plan)))
            check_whole(self.lake.joining, self.lake)
            check_past(stays, self.lake.standing(), last if self.tells_each_change(plan) else None)
        for source in self.sources.values():
            source.seen = source.now.line
        now = {name: [row for row, _ in one.now.rows.values()] for name, one in self.sources.items()}
        assert self.lake.current() == model(self.lake.joining, lambda name: now[name])

    def redeclare(self, random: Random) -> None:
        """Declare that what it shows is made of other columns; the key stays."""
        joining = self.lake.joining
        sources = {
            name: made_otherwise(random, one, COLUMNS[name], joining.dimension.key)
            for name, one in joining.joined.sources.items()
        }
        self.lake.joining = validate_joined(replace(joining.joined, sources=sources), tables_of())

    def keeps(self, plan: JoinPlan) -> Collection[Key]:
        """Return the keys of which nothing is put right: they show nothing that was taken back since.

        Where a source was emptied or made anew behind that, that is none: no row is left of what was told.
        """
        back = [name for name in self.sources if any(f"{name} was taken back" in one for one in plan.whole)]
        before = self.lake.standing()
        if all(self.sources[name].was_emptied() for name in back):
            return before.keys()
        shown = self.lake.current()
        told = model(self.lake.joining, lambda name: self.sources[name].told())
        return [key for key in before if shown.get(key) == told.get(key)]

    def tells_each_change(self, plan: JoinPlan) -> bool:
        """Whether a row that is there dates itself: one of several may be newer than what stands, and not new."""
        joining = self.lake.joining
        return not any(joining.is_grouped(name) for name in joining.joined.sources if plan.whole)


def made_otherwise(random: Random, source: Joins, columns: Sequence[str], key: Sequence[str]) -> Joins:
    """Return a source of which other columns are taken or, of groups, the least or the most."""
    sums = {
        own: replace(of, function=random.choice(ENDS)) if of.function in ENDS else of
        for own, of in source.aggregates.items()
    }
    kept = {own for own in source.columns if own in key or sums}
    selection = {own: of if own in kept else random.choice(columns) for own, of in source.columns.items()}
    return replace(source, columns=selection, aggregates=sums)


def check_past(before: Mapping[Key, Versions], now: Mapping[Key, Versions], last: int | None) -> None:
    """Each version that was there is still; one that ends now ends behind the last run, if that is given."""
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


def followed(random: Random) -> tuple[Follower, Iterator[int]]:
    """Return a joined history that nothing was joined to yet, and the clock of its sources."""
    joining, clock = validate_joined(replace(drawn(random), history=History()), tables_of()), count(1)
    loads = {name: random.choice([0, 0, 0.3, 1]) for name in joining.joined.sources}
    sources = {name: Dated(name, clock=clock, random=random, loads=loads[name]) for name in loads}
    for source in sources.values():
        source.commit(1, {}, {})
    return Follower(Lake(joining), sources), clock


def check_past_of_commits(random: Random) -> None:
    """Whatever became of its sources since it last looked, a joined history of mirrors keeps its past."""
    follower, clock = followed(random)
    alone = random.choice([None, *RARE])
    ways = ["rows"] * 4 + ([way for way in RARE if random.random() < 0.4] if alone is None else [alone] * 2)
    for _ in range(random.randrange(1, 60)):
        random.choice([*follower.sources.values()]).change(random, ways)
        if random.random() < 0.03:
            follower.redeclare(random)
        if random.random() < 0.3:
            follower.follow(next(clock))


def check_taken_back(random: Random) -> None:
    """A joined history of mirrors keeps its past where one of them was taken back, or dropped, and then changed."""
    follower, clock = followed(random)
    sources = [*follower.sources.values()]
    for _ in range(random.randrange(1, 8)):
        for _ in range(random.randrange(6)):
            random.choice(sources).change(random, ["rows"])
        follower.follow(next(clock))
        random.choice(sources).change(random, [random.choice(["again", "again", "drop"])])
        follower.follow(next(clock))
