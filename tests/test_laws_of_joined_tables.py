"""The law of joined tables in a lake: refreshed batch by batch they are as SQL makes them.

The changes of many shops are random: rows are inserted, changed, deleted and get other keys, some of them late.
They pass through files, settings and commands, and the tables are read by others than Spark.
`tests/adapters/spark/joined/test_joined_frames.py` has the same of frames alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from random import Random, SystemRandom

import pytest
from hypothesis import settings
from joined_feeds import (
    SOURCE,
    ZERO,
    Captured,
    CheckedTable,
    Town,
    day_of,
    draw_declaration,
    in_lake,
    kinds_of,
    settings_of,
)
from joined_shops import shapes
from project import NOW, Project, any_kind

from lakeward.adapters.formats.shared.joined.joined_sources import SourceReader
from lakeward.core.history.options import ByRun, History, ValidityColumns
from lakeward.core.joined.declaration import JoinDeclaration
from lakeward.core.joined.plan import OVER_TIME
from lakeward.core.schema import Type
from lakeward.entrypoints import container

pytestmark = pytest.mark.spark

SHOPS = 60
MANY, SOME = range(10, 25), range(2, 8)
"""How often each shop changes before the first run, and before another."""
DAY = 86_400_000_000


@dataclass
class Lake:
    """A project with joined tables of many shops, run after run; each source is a mirror and a history."""

    project: Project
    monkeypatch: pytest.MonkeyPatch
    random: Random
    town: Town
    tables: Sequence[CheckedTable] = ()
    runs: int = 0

    def join(self, *joined: JoinDeclaration) -> None:
        """Declare joined tables."""
        named = [in_lake(one, f"joined_{number}") for number, one in enumerate(joined)]
        self.tables = [CheckedTable(joining, self.town.shops) for joining in named]
        self.project.configure(settings_of(self.names, [one.joined for one in self.tables]), SOURCE)

    @property
    def names(self) -> Sequence[str]:
        """The tables of the shops that some joined table is made of."""
        return [*dict.fromkeys(name for one in self.tables for name in one.joined.sources)]

    def run(self, changes: range) -> None:
        """Change the shops and run, a day after the run before; histories of histories alone are made anew."""
        self.town.change(self.names, changes)
        self.town.deliver(self.project, self.names)
        self.runs += 1
        self.monkeypatch.setattr(container, "clock", lambda: NOW + self.runs * DAY)
        ended = self.project.call("run", "--once", "--json")
        assert ended.code == 0, ended.out + ended.err
        for table, joined in zip(self.tables, ended.document["joined"], strict=True):
            anew = [OVER_TIME] if table.joining.over_time else []
            assert joined["last"] is None or joined["last"]["whole"] == (
                ["it has no rows yet"] if self.runs == 1 else anew
            )

    def check(self) -> None:
        """Compare each joined table with what SQL makes of the shops."""
        for table in self.tables:
            table.check(self.project, (NOW + self.runs * DAY) // DAY - day_of(ZERO))


def mirrored(random: Random, *shapes: str) -> JoinDeclaration:
    """Return a joined mirror of one of these shapes."""
    return draw_declaration(random.choice(shapes), random, unknown={})


def over_time(random: Random, *shapes: str) -> JoinDeclaration:
    """Return a joined history of histories, of columns of several kinds; some sources are as they are now."""
    joined = mirrored(random, *shapes)
    now = {name for name in joined.others if random.random() < 0.3}
    sources = {name: replace(one, as_now=name in now) for name, one in joined.sources.items()}
    return replace(joined, sources=sources, history=History(kinds=kinds_of(joined)))


def by_run(random: Random, *shapes: str) -> JoinDeclaration:
    history = History(validity=ByRun(), validity_columns=ValidityColumns(type=Type("date")))
    return replace(mirrored(random, *shapes), history=history)


@pytest.fixture
def lake(project: Project, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Draw the same each time, or another feed where the profile of hypothesis asks for new examples."""
    seed = 0 if settings().derandomize else SystemRandom().randrange(2**32)
    print("seed", seed)  # is shown where a test fails
    random = Random(seed)
    return Lake(project, monkeypatch, random, Town([Captured(Random(random.random())) for _ in range(SHOPS)]))


@pytest.mark.long
@pytest.mark.timeout(3600)  # on Hudi each of its runs takes minutes
@any_kind
def test_any_joined_tables_are_what_sql_makes_of_their_sources(lake: Lake) -> None:
    """Mirrors, histories of histories, and one of mirrors: with and without aggregates, in chains and by groups."""
    names = [*shapes()]
    lake.join(
        mirrored(lake.random, "groups"),
        mirrored(lake.random, *names),
        over_time(lake.random, "counts", "summary"),
        over_time(lake.random, *names),
        by_run(lake.random, *names),
    )
    for changes in (MANY, SOME, SOME, SOME):
        lake.run(changes)
        lake.check()


@pytest.mark.long
def test_rows_before_a_change_that_are_lost_break_the_law(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    before = SourceReader.before
    monkeypatch.setattr(SourceReader, "before", lambda self, changes: before(self, changes).limit(0))
    lake.join(mirrored(lake.random, "summary"))
    lake.run(MANY)
    lake.check()
    lake.run(SOME)
    with pytest.raises(AssertionError):
        lake.check()
