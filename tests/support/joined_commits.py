"""Simulate sources that commit, forget, are emptied, spliced, rolled back or dropped, and their joined table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

from joined_laws import COLUMNS, Image, Lake, model, random_mirror, tables_of

from lakeward.core.events import Key
from lakeward.core.joined import plan as plans
from lakeward.core.joined.check import validate_joined
from lakeward.core.joined.plan import SourceCommit, SourceState
from lakeward.core.joined.rows import SourceRow
from lakeward.core.joined.touched_keys import SourceChange

RARE: Final = ("forget", "vacuum", "empty", "splice", "back", "again", "drop")
"""What happens to sources besides changes of rows. Most feeds have one of these, because each may hide another."""


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
    commits: list[Commit] = field(default_factory=list)
    remembers: int = 0
    names: int = 0

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
        self.names += 1
        passed = SourceCommit(batch, f"{self.name}-{self.names}")
        last = self.now if self.commits else Commit(passed, frozenset())
        lineage = last.lineage | {passed}
        self.commits.append(Commit(passed, lineage, rows, deletes, max(replaced, last.replaced)))

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
        keys = {key for key, (_, batch) in self.now.rows.items() if batch > since}
        keys |= {key for key, batch in self.now.deletes.items() if batch > since}
        was = next((one.rows for one in self.commits if before and one.passed.batch == since), {})
        return {key: SourceChange([was[key][0]] if key in was else []) for key in keys}


def ways_of(random: Random) -> Sequence[str]:
    """Return the ways in which the sources of a feed change."""
    alone = random.choice([None, *RARE])
    return ["rows"] * 4 + ([way for way in RARE if random.random() < 0.4] if alone is None else [alone] * 2)


def check_commits(random: Random) -> None:
    """Whatever happened to its sources since it was refreshed, a joined table is what SQL makes of them now."""
    joining = validate_joined(random_mirror(random), tables_of())
    sources = {name: Source(name) for name in joining.joined.sources}
    for source in sources.values():
        source.commit(1, {}, {})
    lake, ways = Lake(joining), ways_of(random)
    for _ in range(random.randrange(1, 60)):
        random.choice([*sources.values()]).change(random, ways)
        if random.random() < 0.3:
            refresh(lake, sources)


def refresh(lake: Lake, sources: Mapping[str, Source]) -> None:
    """Join what the sources have now, and compare."""
    progress = None if lake.plan is None else lake.plan.progress
    passed = {} if progress is None else progress.passed
    states = {name: one.state(passed.get(name)) for name, one in sources.items()}
    plan = plans.plan_join(lake.joining, progress, states)
    stored = {name: one.now.rows.items() for name, one in sources.items()}
    rows = {name: {key: [SourceRow(row)] for key, (row, _) in of} for name, of in stored.items()}
    if plan is not None:
        since = plan.since.items()
        changes = {name: sources[name].touched(batch, before=name in plan.before) for name, batch in since}
        lake.commit(plan, lake.joined(plan, rows, changes))
    assert lake.current() == model(lake.joining, lambda name: [row for row, _ in sources[name].now.rows.values()])
