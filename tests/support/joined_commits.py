"""The law of sources that commit, forget, are emptied, spliced, rolled back or dropped, and their joined table."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from random import Random
from typing import Any, Final

from joined_laws import COLUMNS, Image, Lake, check_whole, model, random_mirror, tables_of

from lakeward.core.events import Key
from lakeward.core.history.options import History
from lakeward.core.history.versions import Versions
from lakeward.core.joined import declaration
from lakeward.core.joined.check import validate_joined
from lakeward.core.joined.declaration import Function
from lakeward.core.joined.plan import JoinPlan, SourceCommit, SourceState, plan_join
from lakeward.core.joined.rows import RowsBySource, SourceRow
from lakeward.core.joined.touched_keys import SourceChange, SourceChanges

RARE: Final = ("forget", "vacuum", "empty", "splice", "back", "again", "drop")
"""What happens to sources besides changes of rows. Most feeds have one of these, because each may hide another."""


EXTREMES: Final = (Function.MIN, Function.MAX)


@dataclass(frozen=True)
class Commit:
    """A commit of a source: its rows, each with the batch that wrote it last, and the deletes that are remembered.

    `lineage` has the commits that it comes from, itself included.
    """

    passed: SourceCommit
    lineage: frozenset[SourceCommit]
    rows: Mapping[Key, tuple[Image, int]] = field(default_factory=dict)
    deletes: Mapping[Key, int] = field(default_factory=dict)
    replaced: int = 0


@dataclass
class Source:
    """The commits of a source, the newest last; deletes up to the batch `remembers` may be forgotten.

    Commits have times, as those of changes do, or none, as those of full loads (the share `loads`). `seen` are the
    commits of its lineage at the last refresh.
    """

    name: str
    clock: Iterator[int]
    random: Random
    loads: float = 0
    commits: list[Commit] = field(default_factory=list)
    remembers: int = 0
    names: int = 0
    times: dict[int, int | None] = field(default_factory=dict)
    seen: frozenset[SourceCommit] = frozenset()
    rows_at: dict[SourceCommit, Sequence[Image]] = field(default_factory=dict)

    @property
    def now(self) -> Commit:
        return self.commits[-1]

    def change(self, random: Random, ways: Sequence[str]) -> None:
        """Commit a change, or lose something, in one of these ways."""
        batch = self.now.passed.batch
        match random.choice(ways):
            case "rows":
                self.write(random, batch + 1)
            case "empty":
                self.commit(batch + 1, {}, self.now.deletes, replaced=batch + 1)
            case "splice":  # an older snapshot that removes rows leaves no trace of them
                rows = {key: row for key, row in self.now.rows.items() if random.random() < 0.5}
                self.commit(batch + 1, rows, self.now.deletes, replaced=batch + 1)
            case "back":
                self.roll_back(random)
            case "again":
                self.roll_back(random)
                self.write(random, self.now.passed.batch + 1)
            case "drop":
                self.commits, self.remembers = [Commit(SourceCommit(0, ""), frozenset())], 0
                self.write(random, 1)
                self.commits = self.commits[1:]
            case "forget":
                self.remembers = max(self.remembers, random.choice([batch, random.randrange(batch + 1)]))
                deletes = {key: at for key, at in self.now.deletes.items() if at > self.remembers}
                self.commits[-1] = replace(self.now, deletes=deletes)
            case "vacuum":
                self.commits = self.commits[-random.randrange(1, len(self.commits) + 1) :]

    def write(self, random: Random, batch: int) -> None:
        rows, deletes = dict(self.now.rows), dict(self.now.deletes)
        for _ in range(random.randrange(1, 4)):
            key = random.randrange(3)
            if random.random() < 0.4:
                deletes |= {(key,): batch} if rows.pop((key,), None) else {}
            else:
                cells = {column: random.choice([None, 0, 1, 2]) for column in COLUMNS[self.name]}
                rows[(key,)] = {**cells, COLUMNS[self.name][0]: key}, batch
        self.commit(batch, rows, deletes)

    def roll_back(self, random: Random) -> None:
        """Roll back to any commit, or to one of the last."""
        least = random.choice([1, max(1, len(self.commits) - 2)])
        self.commits = self.commits[: random.randrange(least, len(self.commits) + 1)]
        self.remembers = min(self.remembers, self.now.passed.batch)

    def commit(self, batch: int, rows: Mapping[Key, Any], deletes: Mapping[Key, int], replaced: int = 0) -> None:
        """Add a commit; two of the same batch, before and after a rollback, have two names."""
        time = next(self.clock)
        self.times[batch] = None if self.random.random() < self.loads else time
        self.names += 1
        passed = SourceCommit(batch, f"{self.name}-{self.names}")
        last = self.now if self.commits else Commit(passed, frozenset())
        lineage = last.lineage | {passed}
        self.commits.append(Commit(passed, lineage, rows, deletes, max(replaced, last.replaced)))
        self.rows_at[passed] = [row for row, _ in rows.values()]

    def state(self, passed: SourceCommit | None) -> SourceState:
        return SourceState(
            now=self.now.passed,
            has_passed=passed is None or passed in self.now.lineage,
            remembers=self.remembers,
            replaced=self.now.replaced,
            shows_before=any(commit.passed == passed for commit in self.commits),
        )

    def touched(self, since: int, *, before: bool) -> Mapping[Key, SourceChange]:
        """Return the keys that batches above `since` changed, as far as rows and remembered deletes show it."""
        batches = {key: [batch] for key, batch in self.now.deletes.items()}
        for key, (_, batch) in self.now.rows.items():
            batches.setdefault(key, []).append(batch)
        times = {key: [self.times[b] for b in of if b > since] for key, of in batches.items() if max(of) > since}
        newest = {key: max((time for time in of if time is not None), default=None) for key, of in times.items()}
        was = next((one.rows for one in self.commits if before and one.passed.batch == since), {})
        return {key: SourceChange([was[key][0]] if key in was else [], newest[key]) for key in times}

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


@dataclass
class Follower:
    """A joined table of such sources, and the time of its last refresh."""

    lake: Lake
    sources: Mapping[str, Source]
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
            if self.lake.joining.joined.history is not None:
                check_whole(self.lake.joining, self.lake)
                check_past(stays, self.lake.stored(), last if self.dates_each_change(plan) else None)
        for source in self.sources.values():
            source.seen = source.now.lineage
        now = {name: source.rows_at[source.now.passed] for name, source in self.sources.items()}
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
        return not any(joining.is_grouped(name) for name in joining.joined.sources if plan.reasons)


def redeclared(
    random: Random, source: declaration.Source, columns: Sequence[str], key: Sequence[str]
) -> declaration.Source:
    """Return a source of which other columns are taken or, of groups, the least or the most."""
    sums = {
        own: replace(of, function=random.choice(EXTREMES)) if of.function in EXTREMES else of
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


def check_commits(random: Random) -> None:
    """Whatever happened to its sources, a joined table is what SQL makes of them, and a history keeps its past."""
    joined = replace(random_mirror(random), history=random.choice([None, History(), History()]))
    clock, joining = count(1), validate_joined(joined, tables_of())
    loads = {name: random.choice([0, 0, 0.3, 1]) for name in joined.sources}
    sources = {name: Source(name, clock, random, share) for name, share in loads.items()}
    for source in sources.values():
        source.commit(1, {}, {})
    alone = random.choice([None, *RARE])
    ways = ["rows"] * 4 + ([way for way in RARE if random.random() < 0.4] if alone is None else [alone] * 2)
    follower = Follower(Lake(joining), sources)
    for _ in range(random.randrange(1, 60)):
        random.choice([*sources.values()]).change(random, ways)
        if random.random() < 0.03:
            follower.redeclare(random)
        if random.random() < 0.3:
            follower.refresh(next(clock))
