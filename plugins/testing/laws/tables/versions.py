"""The laws of histories: a table has every version as the reference adapter has it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from lakeward.core.dimension import ORDERED, Dimension, Lateness, Unbounded, Within
from lakeward.core.events import ChangeEvent, Key, Operation, Position
from lakeward.core.history.options import ByRun, History, Kind, Surrogate, Track, ValidityColumns
from lakeward.core.merge.change_log import Reason, Reject
from lakeward.core.merge.facts import PARTIAL, Capability
from lakeward.core.schema import Type
from lakeward.plugins.testing.bench import Law, Trial, expected
from lakeward.plugins.testing.player import CRASHES, UNCOMMITTED
from lakeward.plugins.testing.scripts import NAME, PACKED, TOLERANT, Item, Rows, Script, pack_late, pack_reloaded

_Check: TypeAlias = Callable[[Trial], None]
_LISTED: Final[list[Law]] = []


@dataclass(frozen=True, slots=True)
class Way:
    """Options of a history, the lateness of its events, and the features of its feed.

    With `is_bitemporal` the table also keeps what was known when, if it can. `deliveries` replace the random feed.
    """

    history: History
    lateness: Lateness
    in_part: bool = False
    truncates: bool = False
    is_bitemporal: bool = False
    deliveries: Sequence[Sequence[Item]] = ()
    fixes: Mapping[Position, ChangeEvent] = field(default_factory=dict)

    @property
    def needs(self) -> frozenset[str]:
        """The capabilities that a table needs besides `history`."""
        more = {Capability.TRUNCATE} if self.truncates else set()
        return frozenset(item.value for item in (PARTIAL | more if self.in_part else more))

    def script(self, trial: Trial) -> Script:
        """Return the script of a trial."""
        if not self.deliveries:
            bad = 0.0 if self.truncates or self.lateness == ORDERED else 0.03
            return _of_several(
                trial, range(2, 32), self.lateness, bad=bad, in_part=self.in_part, truncates=self.truncates
            )
        key, events = ("h", "id"), [one for items in self.deliveries for one in items]
        dimension = Dimension(name=NAME, schema=PACKED, key=key, lateness=self.lateness, tolerance=TOLERANT)
        good = [one for one in events if isinstance(one, ChangeEvent)]
        return Script(dimension, self.deliveries, [*good, *self.fixes.values()], 0.0, self.fixes)

    @property
    def pause(self) -> int:
        """The microseconds between two deliveries: a day, if the day of the run is the valid time."""
        return 86_400_000_000 if isinstance(self.history.validity, ByRun) else 0


_A: Final = Track(frozenset({"a"}), but=False)
_DAYS: Final = ValidityColumns(
    type=Type("date"), closed=True, open_end=2_932_896, is_current=None, surrogate=Surrogate.HASH
)


def _event(operation: Operation, at: int, key: int | None = None) -> ChangeEvent:
    if key is None:
        return ChangeEvent(operation=operation, position=Position(1, at, at, 1), time=at)
    cells = {"h": 0, "id": key, "a": at, "b": 0}
    return ChangeEvent(operation=operation, position=Position(1, at, at, key), key=(0, key), cells=cells, time=at)


_MENDED: Final = _event(Operation.UPDATE, 6, 1)
_TRUNCATED: Final[Sequence[Sequence[Item]]] = (
    [_event(Operation.INSERT, 1, key) for key in (1, 2)],
    [_event(Operation.TRUNCATE, 4)],
    [_event(Operation.TRUNCATE, 3)],
    [_event(Operation.INSERT, 5, 1), _event(Operation.INSERT, 5, 3)],
    [Reject(_MENDED.position, Reason.CAST, _MENDED.keys, time=6)],
    [_event(Operation.INSERT, 9, 4)],
    [_event(Operation.UPDATE, 10, 3)],
)
"""A truncate comes after a newer one. The watermark passes both before a row of a key is repaired."""

WAYS: Final[Mapping[str, Way]] = {
    "by the day of the run": Way(History(validity=ByRun(), validity_columns=_DAYS), ORDERED, is_bitemporal=True),
    "by the day of a late run": Way(
        History(validity=ByRun(), validity_columns=ValidityColumns(type=Type("date"))), Within(3)
    ),
    "tracking one column": Way(History(track=_A), Within(3), truncates=True),
    "parts of rows": Way(
        History(kinds={"b": Kind.KEEP_FIRST}, previous_key=True), Within(3), in_part=True, is_bitemporal=True
    ),
    "of kinds": Way(
        History(kinds={"a": Kind.CURRENT, "b": Kind.PREVIOUS}), Unbounded(), in_part=True, truncates=True
    ),
    "truncates by hand": Way(
        History(), Within(3), truncates=True, deliveries=_TRUNCATED, fixes={_MENDED.position: _MENDED}
    ),
}


def _law(*needs: str, **more: Any) -> Callable[[_Check], _Check]:
    def add(check: _Check) -> _Check:
        _LISTED.append(Law.of(check, Capability.HISTORY.value, *needs, **more))
        return check

    return add


def _of_several(trial: Trial, deliveries: range, lateness: Lateness, **features: Any) -> Script:
    """Return a script with so many deliveries. A single one has no late events, and many are slow."""
    while True:
        script = pack_late(trial.random, trial.histories, lateness, fixed=0.6, **features)
        if len(script.deliveries) in deliveries:
            return script


@_law(cases=WAYS, of_cases={name: way.needs for name, way in WAYS.items()}, few=3, share=0.1, often=6, seldom=3)
def any_order_and_any_crash_give_the_same_history(trial: Trial) -> None:
    """History: batching, idempotence, lateness, quarantine and crash hold for every version of every key."""
    way: Way = trial.case
    script = way.script(trial)
    ends = trial.ends(UNCOMMITTED if way.in_part else CRASHES)
    history = replace(way.history, is_bitemporal=way.is_bitemporal and trial.can(Capability.BITEMPORAL))
    dimension = replace(script.dimension, history=history)
    trial.play_alike(replace(script, dimension=dimension, pause=way.pause), ends)


@_law(Capability.RELOAD.value, few=2, share=0.1, often=6, seldom=3)
def a_reload_ends_versions_of_missing_rows(trial: Trial) -> None:
    """History, reload: versions of rows in the new load continue. Those of all other rows end."""
    first = pack_late(trial.random, trial.histories, trial.random.choice((ORDERED, Within(3), Unbounded())))
    script = pack_reloaded(trial.random, first, trial.histories)
    trial.play_alike(replace(script, dimension=replace(script.dimension, history=History())), trial.ends())


KNOWN: Final = (
    History(is_bitemporal=True, kinds={"b": Kind.PREVIOUS}, previous_key=True),
    History(
        is_bitemporal=True,
        kinds={"a": Kind.CURRENT, "b": Kind.OVERWRITE},
        validity_columns=ValidityColumns(surrogate=Surrogate.HASH),
    ),
)


@_law(Capability.BITEMPORAL.value, often=6)
def recorded_versions_are_not_rewritten(trial: Trial) -> None:
    """History, known: as known at a batch, a table shows the history after that batch, whatever came later."""
    random, history = trial.random, trial.random.choice(KNOWN)
    truncates, lateness = random.random() < 0.5, random.choice((Within(3), Unbounded()))
    truncates, in_part = truncates and trial.can(Capability.TRUNCATE), trial.can(*PARTIAL)
    bad = 0.0 if truncates else 0.03
    script = _of_several(trial, range(3, 5), lateness, bad=bad, in_part=in_part, truncates=truncates)
    script = replace(script, dimension=replace(script.dimension, history=history))
    moments = trial.play_alike(script, trial.ends(UNCOMMITTED if in_part else CRASHES)).moments
    plain = expected(
        replace(script, dimension=replace(script.dimension, history=replace(history, is_bitemporal=False)))
    )
    for moment, then in zip(moments, plain, strict=True):
        batch = moment.progress.batch
        assert as_known(moment.rows, history, batch) == then.rows, f"batch {batch} is not known right after it"
        actual, right = (cells_of(rows) for rows in (as_known(moments[-1].rows, history, batch), then.rows))
        assert actual == right, f"as known at batch {batch} the rows are {actual}, and after it they were {right}"


def as_known(rows: Rows, history: History, batch: int) -> Rows:
    """Return the rows that a history knew after a batch, without the columns that say so."""
    versions: dict[Key, tuple[Mapping[str, Any], Position]] = {}
    for key, (cells, position) in rows.items():
        since, until = (cells[name] for name in history.known_columns)
        if since <= batch and (until is None or until > batch):
            assert key[:-1] not in versions, f"after batch {batch} two rows of {key[:-1]} are current"
            visible = {name: cell for name, cell in cells.items() if name not in history.known_columns}
            versions[key[:-1]] = (visible, position)
    return versions


def cells_of(rows: Rows) -> Mapping[Key, Mapping[str, Any]]:
    """Return rows without their positions, which a later event with equal cells may replace."""
    return {key: cells for key, (cells, _) in rows.items()}


LAWS: Final = tuple(_LISTED)
"""The laws of histories."""
