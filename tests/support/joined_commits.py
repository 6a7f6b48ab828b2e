"""Sources that commit on their own, forget, are emptied, spliced, taken back, dropped; a joined table follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Final

from joined_laws import COLUMNS, Image, Lake, drawn, model, tables_of

from lakeward.core.events import Key
from lakeward.core.joined import plan as plans
from lakeward.core.joined.check import validate_joined
from lakeward.core.joined.plan import SourceCommit, SourceState, recent_commits
from lakeward.core.joined.rows import SourceRow
from lakeward.core.joined.touched import SourceChange

RARE: Final = ("forget", "vacuum", "empty", "splice", "back", "again", "anew", "drop")
"""What becomes of sources beside changes of rows; most feeds have one of it, for each way hides what others do."""


@dataclass(frozen=True)
class Commit:
    """A commit of a source: its rows, each with the batch that wrote it last, and the deletes that are remembered.

    `line` are the commits that it is made of, itself included.
    """

    passed: SourceCommit
    line: frozenset[SourceCommit]
    rows: Mapping[Key, tuple[Image, int]] = field(default_factory=dict)
    deletes: Mapping[Key, int] = field(default_factory=dict)
    emptied: int = 0
    spliced: int = 0


@dataclass
class Source:
    """The commits of a source, the newest last, and what is forgotten of them."""

    name: str
    commits: list[Commit] = field(default_factory=list)
    remembers: int = 0
    names: int = 0

    @property
    def now(self) -> Commit:
        return self.commits[-1]

    def change(self, random: Random, ways: Sequence[str]) -> None:
        """Commit changes, be emptied, spliced, taken back (and changed, or emptied), dropped, or forget some."""
        batch = self.now.passed.batch
        match random.choice(ways):
            case "rows":
                self.write(random, batch + 1)
            case "empty":
                self.commit(batch + 1, {}, self.now.deletes, emptied=batch + 1)
            case "splice":
                self.splice(random, batch + 1)
            case "back":
                self.take_back(random)
            case "again":
                self.take_back(random)
                self.write(random, self.now.passed.batch + 1)
            case "anew":
                self.take_back(random)
                self.change(random, ["empty"])
            case "drop":
                self.drop(random)
            case "forget":
                self.remembers = max(self.remembers, random.choice([batch, random.randrange(batch + 1)]))
                left = {key: at for key, at in self.now.deletes.items() if at > self.remembers}
                self.commits[-1] = replace(self.now, deletes=left)
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

    def take_back(self, random: Random) -> None:
        """Take it back to any commit, or to one of the last."""
        least = random.choice([1, max(1, len(self.commits) - 2)])
        self.commits = self.commits[: random.randrange(least, len(self.commits) + 1)]
        self.remembers = min(self.remembers, self.now.passed.batch)

    def drop(self, random: Random) -> None:
        """Let another table take its place, whose first batch has some rows."""
        self.commits, self.remembers = [Commit(SourceCommit(0, ""), frozenset())], 0
        self.write(random, 1)
        self.commits = self.commits[1:]

    def splice(self, random: Random, batch: int) -> None:
        """Put a snapshot between others: it remembers nothing of the rows that it takes out."""
        rows = {key: row for key, row in self.now.rows.items() if random.random() < 0.5}
        self.commit(batch, rows, self.now.deletes, spliced=batch)

    def commit(
        self,
        batch: int,
        rows: Mapping[Key, tuple[Image, int]],
        deletes: Mapping[Key, int],
        *,
        emptied: int | None = None,
        spliced: int | None = None,
    ) -> None:
        """Add a commit; two of the same batch, before and after the table was taken back, have two names."""
        self.names += 1
        passed = SourceCommit(batch, f"{self.name}-{self.names}")
        last = self.now if self.commits else Commit(passed, frozenset())
        emptied = last.emptied if emptied is None else emptied
        spliced = last.spliced if spliced is None else spliced
        self.commits.append(Commit(passed, last.line | {passed}, rows, deletes, emptied, spliced))

    def state(self, known: Sequence[SourceCommit]) -> SourceState:
        line = self.now.line
        kept = next((one for one in known if one in line), None)
        return SourceState(
            now=self.now.passed,
            behind=recent_commits(sorted(line, reverse=True)),
            goes_on=kept in known[:1],
            kept=kept,
            remembers=self.remembers,
            emptied=self.now.emptied,
            spliced=self.now.spliced,
            shows_before=any(commit.passed == kept for commit in self.commits),
        )

    def touched(self, since: int, *, before: bool) -> Mapping[Key, SourceChange]:
        """Return what was touched above a batch: rows by what they say, deletes by what is remembered."""
        keys = {key for key, (_, batch) in self.now.rows.items() if batch > since}
        keys |= {key for key, batch in self.now.deletes.items() if batch > since}
        was = next((one.rows for one in self.commits if before and one.passed.batch == since), {})
        return {key: SourceChange([was[key][0]] if key in was else []) for key in keys}


def check_commits(random: Random) -> None:
    """Whatever became of its sources since it last looked, a joined table is what SQL makes of them now."""
    joining = validate_joined(drawn(random), tables_of())
    sources = {name: Source(name) for name in joining.joined.sources}
    for source in sources.values():
        source.commit(1, {}, {})
    lake = Lake(joining)
    alone = random.choice([None, *RARE])
    ways = ["rows"] * 4 + ([way for way in RARE if random.random() < 0.4] if alone is None else [alone] * 2)
    for _ in range(random.randrange(1, 60)):
        source = random.choice([*sources.values()])
        source.change(random, ways)
        if random.random() < 0.3:
            follow(lake, sources)


def follow(lake: Lake, sources: Mapping[str, Source]) -> None:
    """Join what the sources have now, and compare."""
    progress = None if lake.plan is None else lake.plan.progress
    known = {name: () if progress is None else progress.known(name) for name in sources}
    plan = plans.plan_join(lake.joining, progress, {n: one.state(known[n]) for n, one in sources.items()})
    tables = {
        name: {key: [SourceRow(row)] for key, (row, _) in one.now.rows.items()} for name, one in sources.items()
    }
    if plan is not None:
        since = plan.since.items()
        changes = {name: sources[name].touched(batch, before=name in plan.before) for name, batch in since}
        lake.commit(plan, lake.joined(plan, tables, changes))
    assert lake.current() == model(lake.joining, lambda name: [row for row, _ in sources[name].now.rows.values()])
