"""The bench of a table format under test, the laws, and one trial of a law on a bench."""

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
"""The default for the number of tries of a law, each with other histories."""

FOREIGN: Final = "foreign commits"
COLUMNS: Final = "changes of columns"

TYPES: Final = frozenset({*SCALARS, "list", "map", "struct"})
"""The names of all types that a column may have."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bench:
    """A table format under test. Each try of a law gets a new bench.

    - `lake`: opens tables, makes frames and reads rows.
    - `examples`: the number of tries of a law, each on a table of a few histories.
    - `histories`: packs so many histories into one table, for formats whose commits take seconds. Each law is then
      tried once, unless `examples` is given.
    - `foreign`: commits to an existing table as another writer that changes no row. Without it, the laws of foreign
      commits are skipped.
    - `partitioned`: makes a lake whose tables are partitioned by the given columns.
    - `changes_columns`: whether tables can get other columns. If not, laws that need it are skipped.
    - `types`: the names of the column types that tables hold. They must refuse all other types.
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
        """The names of the capabilities that the table declares, and of what the bench can do."""
        declared = self.lake.open(Dimension(name=NAME, schema=PACKED, key=("h", "id"))).table.capabilities
        own = {FOREIGN: self.foreign is not None, COLUMNS: self.changes_columns}
        return frozenset(item.value for item in declared) | {name for name, has in own.items() if has}

    @property
    def tries(self) -> int:
        """The number of tries of a law."""
        return self.examples or (EXAMPLES if self.histories is None else 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class Law:
    """A property that must hold for every table. `check` raises AssertionError if it does not.

    - `needs`: the names of what a table or its bench must be able to do.
    - `few`, `share`: the number of histories of a try, or their share of the packed histories of a bench.
    - `often`, `seldom`: the number of crashes of a try, without and with packed histories.
    - `weight`: a factor for the number of tries of the bench. `once`: the law is tried once.
    - `cases`: variants of the law, each of which is tried. `of_cases`: what single cases need besides `needs`.
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

    @classmethod
    def of(cls, check: Callable[[Trial], None], *needs: str, **more: Any) -> Law:
        """Return the law with the name and the docstring of its check."""
        return cls(name=check.__name__, statement=check.__doc__ or "", check=check, needs=frozenset(needs), **more)

    def in_cases(self, names: Collection[str]) -> Law:
        """Return the law with only these of its cases. A law without cases is not changed."""
        return replace(self, cases={name: case for name, case in self.cases.items() if name in names})

    def closed_by(self, can: frozenset[str], case: str | None = None) -> Sequence[str]:
        """Return the sorted names of what the law, or this case of it, needs and `can` lacks."""
        more = frozenset() if case is None else self.of_cases.get(case, frozenset())
        return sorted((self.needs | more) - can)

    def tries(self, bench: Bench) -> int:
        """Return the number of tries on a bench for each case."""
        return 1 if self.once else max(1, round(bench.tries * self.weight / max(1, len(self.cases))))


@dataclass(frozen=True, slots=True, kw_only=True)
class Trial:
    """One try of a law: a random generator, and a function that makes empty benches."""

    law: Law
    make: Callable[[], Bench]
    bench: Bench
    random: Random
    case: Any = None

    @property
    def is_packed(self) -> bool:
        """Whether histories are packed into one table, so that one try must be enough."""
        return self.bench.histories is not None

    @property
    def histories(self) -> int:
        """The number of histories in the table."""
        packed = self.bench.histories
        return self.law.few if packed is None else max(2, round(packed * self.law.share))

    def can(self, *capabilities: Capability) -> bool:
        """Return True if the table declares all these capabilities."""
        return {capability.value for capability in capabilities} <= self.bench.can

    def ends(self, of: Sequence[tuple[str, str]] = CRASHES) -> Sequence[tuple[str, str]]:
        """Return randomly drawn crash points: steps before or after which the process ends."""
        return self.random.sample(of, min(len(of), self.law.seldom if self.is_packed else self.law.often))

    def play(self, script: Script, ends: Sequence[tuple[str, str]] = (), *, is_exact: bool = True) -> Player:
        """Play a script on a new bench. At the end its rows must be those of the feed, and no key may be held.

        With `is_exact`, the table must equal that of the reference adapter after each batch. If no rule decides
        what a key change moves, its key is held until an operator discards it; then only the reference adapter
        counts.
        """
        reference = Player(script, MemoryLake()).play()
        player = Player(script, self.make().lake, expected=reference.moments if is_exact else None).play(ends)
        moment = player.moments[-1]
        if Reason.KEY_SHIFT.value in reference.reasons:
            return player
        if moment.rows != script.truth:
            raise AssertionError(rows_differ(moment.rows, script.truth, player.delivered))
        assert not any(held for _, _, held, _ in moment.quarantine.values()), f"keys are held: {moment.quarantine}"
        return player

    def play_alike(self, script: Script, ends: Sequence[tuple[str, str]] = ()) -> Player:
        """Play a script on a new bench. After each batch its table must equal that of the reference adapter."""
        return Player(script, self.make().lake, expected=expected(script)).play(ends)


def expected(script: Script) -> Sequence[Moment]:
    """Return the tables of the reference adapter after each batch of a script without crashes."""
    return Player(script, MemoryLake()).play().moments
