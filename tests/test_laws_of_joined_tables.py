"""The law of joined tables in a lake: refreshed batch by batch they are as SQL makes them.

The changes of many shops are random: rows are inserted, changed, deleted and get other keys, some of them late.
They pass through files, settings and commands, and the tables are read by others than Spark.
`tests/adapters/spark/joined/test_joined_frames.py` has the same of frames alone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random, SystemRandom

import pytest
from hypothesis import settings
from joined_feeds import SOURCE, ZERO_DAY, Captured, JoinedShops, draw_declaration, in_lake, settings_of
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
    shops: Sequence[Captured]
    tables: Sequence[JoinedShops] = ()
    runs: int = 0

    def join(self, *joined: JoinDeclaration) -> None:
        """Declare joined tables."""
        named = [in_lake(one, f"joined_{number}") for number, one in enumerate(joined)]
        self.tables = [JoinedShops(joining, self.shops) for joining in named]
        self.project.configure(settings_of(self.names, [one.joined for one in self.tables]), SOURCE)

    @property
    def names(self) -> Sequence[str]:
        """The tables of the shops that some joined table is made of."""
        return [*dict.fromkeys(name for one in self.tables for name in one.joined.sources)]

    def run(self, changes: range) -> None:
        """Change each shop some times, now and late, and run, a day after the run before.

        Histories of histories alone are made anew.
        """
        for shop in self.shops:
            for _ in range(shop.random.choice(changes)):
                shop.change(self.names, late=True)
                shop.now += shop.random.randrange(3)
        self.runs += 1
        self.deliver()
        self.monkeypatch.setattr(container, "clock", lambda: NOW + self.runs * DAY)
        ended = self.project.call("run", "--once", "--json")
        assert ended.code == 0, ended.out + ended.err
        for table, joined in zip(self.tables, ended.document["joined"], strict=True):
            anew = [OVER_TIME] if table.joining.over_time else []
            assert joined["last"] is None or joined["last"]["whole"] == (
                ["it has no rows yet"] if self.runs == 1 else anew
            )

    def deliver(self) -> None:
        """Deliver the new changes of each table in two files."""
        lines: dict[str, list[str]] = defaultdict(list)
        for number, shop in enumerate(self.shops):
            for event in shop.events[shop.delivered :]:
                lines[event.name].append(event.line(number))
            shop.delivered = len(shop.events)
        for name, of in lines.items():
            half = len(of) // 2
            for part, written in enumerate((of[:half], of[half:])):
                if written:
                    file = f"202611{self.runs:02}-10000000{part}.csv"
                    self.project.put(file, "".join(written), f"shop/{name}")

    def check(self) -> None:
        """Compare each joined table, as a reader other than Spark finds it, with what SQL makes of the shops."""
        ran = NOW // DAY + self.runs - ZERO_DAY
        for table in self.tables:
            table.beginning = -ZERO_DAY * (24 if table.joining.over_time else 1)
            name, columns = table.joined.name, tuple(table.joining.dimension.stored.schema.names)
            table.check(columns, self.project.read(name.table, name.schema, columns), ran)


@pytest.fixture
def lake(project: Project, monkeypatch: pytest.MonkeyPatch) -> Lake:
    """Draw the same each time, or another feed where the profile of hypothesis asks for new examples."""
    seed = 0 if settings().derandomize else SystemRandom().randrange(2**32)
    print("seed", seed)  # is shown where a test fails
    random = Random(seed)
    return Lake(project, monkeypatch, random, [Captured(Random(random.random())) for _ in range(SHOPS)])


@pytest.mark.long
@pytest.mark.timeout(3600)  # on Hudi each of its runs takes minutes
@any_kind
def test_any_joined_tables_are_what_sql_makes_of_their_sources(lake: Lake) -> None:
    """Mirrors, histories of histories, and one of mirrors: with and without aggregates, in chains and by groups."""
    random, names = lake.random, [*shapes()]
    by_run = History(validity=ByRun(), validity_columns=ValidityColumns(type=Type("date")))
    lake.join(
        draw_declaration("groups", random),
        draw_declaration(random.choice(names), random),
        draw_declaration(random.choice(["counts", "summary"]), random, History(), as_now=0.3),
        draw_declaration(random.choice(names), random, History(), as_now=0.3),
        draw_declaration(random.choice(names), random, by_run),
    )
    for changes in (MANY, SOME, SOME, SOME):
        lake.run(changes)
        lake.check()


@pytest.mark.long
def test_rows_before_a_change_that_are_lost_break_the_law(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    before = SourceReader.before
    monkeypatch.setattr(SourceReader, "before", lambda self, changes: before(self, changes).limit(0))
    lake.join(draw_declaration("summary", lake.random))
    lake.run(MANY)
    lake.check()
    lake.run(SOME)
    with pytest.raises(AssertionError):
        lake.check()
