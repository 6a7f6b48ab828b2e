"""The law of sources that commit, forget, are emptied, spliced, rolled back or dropped: no change is missed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

from joined_shops import COLUMNS, Image, shapes, tables_of

from lakeward.core.dimension import TableName
from lakeward.core.events import Key
from lakeward.core.joined.check import validate_joined
from lakeward.core.joined.declaration import JoinDeclaration
from lakeward.core.joined.plan import JoinPlan, JoinProgress, SourceCommit, SourceState, plan_join

RARE: Final = ("forget", "vacuum", "empty", "splice", "back", "again", "drop")
"""What happens to sources besides changes of rows. Most feeds have one of these, because each may hide another."""

JOINING = validate_joined(JoinDeclaration(name=TableName("dw", "t"), sources=shapes()["summary"]), tables_of())


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
    """The commits of a source, the newest last; deletes up to the batch `remembers` may be forgotten."""

    name: str
    random: Random
    commits: list[Commit] = field(default_factory=list)
    remembers: int = 0
    names: int = 0
    rows_at: dict[SourceCommit, Mapping[Key, Image]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.commit(1, {}, {})

    @property
    def now(self) -> Commit:
        return self.commits[-1]

    def change(self, ways: Sequence[str]) -> None:
        """Commit a change, or lose something, in one of these ways."""
        random, batch = self.random, self.now.passed.batch
        match random.choice(ways):
            case "rows":
                self.write(batch + 1)
            case "empty":
                self.commit(batch + 1, {}, self.now.deletes, replaced=batch + 1)
            case "splice":  # an older snapshot that removes rows leaves no trace of them
                rows = {key: row for key, row in self.now.rows.items() if random.random() < 0.5}
                self.commit(batch + 1, rows, self.now.deletes, replaced=batch + 1)
            case "back":
                self.roll_back()
            case "again":
                self.roll_back()
                self.write(self.now.passed.batch + 1)
            case "drop":
                self.commits, self.remembers = [Commit(SourceCommit(0, ""), frozenset())], 0
                self.write(1)
                self.commits = self.commits[1:]
            case "forget":
                self.remembers = max(self.remembers, random.choice([batch, random.randrange(batch + 1)]))
                deletes = {key: at for key, at in self.now.deletes.items() if at > self.remembers}
                self.commits[-1] = replace(self.now, deletes=deletes)
            case "vacuum":
                self.commits = self.commits[-random.randrange(1, len(self.commits) + 1) :]

    def write(self, batch: int) -> None:
        random, rows, deletes = self.random, dict(self.now.rows), dict(self.now.deletes)
        for _ in range(random.randrange(1, 4)):
            key = random.randrange(3)
            if random.random() < 0.4:
                deletes |= {(key,): batch} if rows.pop((key,), None) else {}
            else:
                cells = {column: random.choice([None, 0, 1, 2]) for column in COLUMNS[self.name]}
                rows[(key,)] = {**cells, COLUMNS[self.name][0]: key}, batch
        self.commit(batch, rows, deletes)

    def roll_back(self) -> None:
        """Roll back to any commit, or to one of the last."""
        least = self.random.choice([1, max(1, len(self.commits) - 2)])
        self.commits = self.commits[: self.random.randrange(least, len(self.commits) + 1)]
        self.remembers = min(self.remembers, self.now.passed.batch)

    def commit(
        self, batch: int, rows: Mapping[Key, tuple[Image, int]], deletes: Mapping[Key, int], replaced: int = 0
    ) -> None:
        """Add a commit; two of the same batch, before and after a rollback, have two names."""
        self.names += 1
        passed = SourceCommit(batch, f"{self.name}-{self.names}")
        last = self.now if self.commits else Commit(passed, frozenset())
        self.commits.append(Commit(passed, last.lineage | {passed}, rows, deletes, max(replaced, last.replaced)))
        self.rows_at[passed] = {key: row for key, (row, _) in rows.items()}

    def state(self, passed: SourceCommit | None) -> SourceState:
        return SourceState(
            now=self.now.passed,
            has_passed=passed is None or (passed in self.now.lineage and self.shows(passed)),
            remembers=self.remembers,
            replaced=self.now.replaced,
        )

    def shows(self, passed: SourceCommit) -> bool:
        return any(commit.passed == passed for commit in self.commits)

    def listed(self, since: int) -> set[Key]:
        """Return the keys that batches above `since` changed, as far as rows and remembered deletes show it."""
        written = {key for key, (_, batch) in self.now.rows.items() if batch > since}
        return written | {key for key, batch in self.now.deletes.items() if batch > since}


def check_commits(random: Random) -> None:
    """Whatever happened to its sources, a batch of changed keys has each key that differs, and its earlier row."""
    sources = {name: Source(name, random) for name in JOINING.joined.sources}
    alone = random.choice([None, *RARE])
    ways = ["rows"] * 4 + ([way for way in RARE if random.random() < 0.4] if alone is None else [alone] * 2)
    progress: JoinProgress | None = None
    for _ in range(random.randrange(1, 60)):
        random.choice([*sources.values()]).change(ways)
        if random.random() < 0.3:
            passed = {} if progress is None else progress.passed
            states = {name: one.state(passed.get(name)) for name, one in sources.items()}
            plan = plan_join(JOINING, progress, states)
            if plan is not None and not plan.reasons:
                for name, source in sources.items():
                    check_source(plan, source, passed[name])
            progress = progress if plan is None else plan.progress


def check_source(plan: JoinPlan, source: Source, passed: SourceCommit) -> None:
    before, now = source.rows_at[passed], source.rows_at[source.now.passed]
    differing = {key for key in before.keys() | now.keys() if before.get(key) != now.get(key)}
    since = plan.since.get(source.name)
    assert differing <= (set() if since is None else source.listed(since))
    assert source.shows(passed) or not differing
