"""What the kit needs of a table format under test, and one try of a law on it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any, Final

from lakeward.core.dimension import Dimension
from lakeward.core.merge.change_log import Reason
from lakeward.core.merge.facts import Capability
from lakeward.core.schema import SCALARS
from lakeward.plugins.testing.moments import Moment, rows_differ
from lakeward.plugins.testing.player import CRASHES, Lake, MemoryLake, Player
from lakeward.plugins.testing.scripts import NAME, PACKED, Script

EXAMPLES: Final = 50
"""How often a law is tried on other histories, unless a bench says otherwise."""

FOREIGN: Final = "foreign commits"
COLUMNS: Final = "changes of columns"

TYPES: Final = frozenset({*SCALARS, "list", "map", "struct"})
"""The names of all types that a column may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A table format under test, made anew for each try of a law.

    `lake` opens its tables, makes frames and reads rows. Where a commit costs seconds, `histories`
    packs so many of them into one table, and each law is tried once (or as often as `examples`
    says); without it, a law is tried on `examples` tables of a few histories each. `foreign`
    makes a commit of another writer, one that changes no row, where there is a table; without it, the
    laws of foreign commits are not run. `partitioned` makes a lake whose tables are partitioned by
    these columns, for a format that has partitions. Of one whose tables keep the columns that they
    have (`changes_columns` is false), what needs others is not run. Its tables hold values of `types`, by
    their names, and refuse the others.
    """

    lake: Lake
    examples: int | None = None
    histories: int | None = None
    foreign: Callable[[Dimension], object] | None = None
    partitioned: Callable[[Sequence[str]], Lake] | None = None
    changes_columns: bool = True
    types: frozenset[str] = TYPES

    @property
    def can(self) -> frozenset[str]:
        """What opens laws, by name: the capabilities that the table declares, and what the bench can do."""
        declared = self.lake.open(Dimension(name=NAME, schema=PACKED, key=("h", "id"))).table.capabilities
        own = {FOREIGN: self.foreign is not None, COLUMNS: self.changes_columns}
        return frozenset(item.value for item in declared) | {name for name, has in own.items() if has}

    @property
    def tries(self) -> int:
        """How often a law is tried."""
        return self.examples or (EXAMPLES if self.histories is None else 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """What must hold for every table: its name, what it says, and a check that raises AssertionError.

    `needs` are names of what a table or its bench can do. A try has `few` histories, or `share`
    of those that a bench packs; and ends in crashes `often`, or `seldom` where they are packed.
    It is tried as often as the bench says times `weight`, or `once`, and for each of the `cases`, some of which
    need more than it does: `of_cases`.
    """

    name: str
    statement: str
    check: Callable[[Trial], None]
    needs: frozenset[str] = frozenset()
    few: int = 3
    share: float = 0.1
    often: int = 5
    seldom: int = 3
    weight: float = 1.0
    once: bool = False
    cases: Mapping[str, Any] = field(default_factory=dict)
    of_cases: Mapping[str, frozenset[str]] = field(default_factory=dict)

    def in_cases(self, names: Collection[str]) -> Law:
        """Return the law for these of its cases alone; one that has none stays as it is."""
        return replace(self, cases={name: case for name, case in self.cases.items() if name in names})

    def closed_by(self, can: frozenset[str], case: str | None = None) -> Sequence[str]:
        """Return what it needs, or of its cases this one does, and there is not."""
        more = frozenset() if case is None else self.of_cases.get(case, frozenset())
        return sorted((self.needs | more) - can)

    def tries(self, bench: Bench) -> int:
        """How often it is tried on a bench, for each of its cases."""
        return 1 if self.once else max(1, round(bench.tries * self.weight / max(1, len(self.cases))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One try of a law: chance, and benches that hold nothing yet."""

    law: Law
    make: Callable[[], Bench]
    bench: Bench
    random: Random
    case: Any = None

    @property
    def is_packed(self) -> bool:
        """Whether one try must say all."""
        return self.bench.histories is not None

    @property
    def histories(self) -> int:
        """How many histories live side by side."""
        packed = self.bench.histories
        return self.law.few if packed is None else max(2, round(packed * self.law.share))

    def can(self, *capabilities: Capability) -> bool:
        """Whether the table declares all of them."""
        return {capability.value for capability in capabilities} <= self.bench.can

    def ends(self, of: Sequence[tuple[str, str]] = CRASHES) -> Sequence[tuple[str, str]]:
        """Draw steps at which processes end, before or after them."""
        return self.random.sample(of, min(len(of), self.law.seldom if self.is_packed else self.law.often))

    def play(self, script: Script, ends: Sequence[tuple[str, str]] = (), *, is_exact: bool = True) -> Player:
        """Play a script to a new bench; its table must be the reference adapter's at each moment (`is_exact`).

        In the end its rows must be those of the feed, and nothing may hold a key. Where no rule decides what a
        key change moves, its key is held until a person gives it up: there it is the reference adapter that counts.
        """
        reference = Player(script, MemoryLake()).play()
        player = Player(script, self.make().lake, expected=reference.moments if is_exact else None).play(ends)
        found = player.moments[-1]
        if Reason.KEY_SHIFT.value in reference.reasons:
            return player
        if found.rows != script.truth:
            raise AssertionError(rows_differ(found.rows, script.truth, player.delivered))
        assert not any(held for _, _, held, _ in found.quarantine.values()), f"keys are held: {found.quarantine}"
        return player

    def play_alike(self, script: Script, ends: Sequence[tuple[str, str]] = ()) -> Player:
        """Play a script to a new bench; its table must be the reference adapter's at each moment."""
        return Player(script, self.make().lake, expected=expected(script)).play(ends)


def expected(script: Script) -> Sequence[Moment]:
    """Return what the reference adapter shows of a script, after each batch of it, when nothing ends it."""
    return Player(script, MemoryLake()).play().moments
