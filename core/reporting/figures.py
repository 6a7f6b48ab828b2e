"""Figures of a run, for whatever watches it: of each table, and of the pipeline as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

Number: TypeAlias = int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFigures:
    """What became of a table, and how it is.

    Since the run began: batches, events by what became of them, failed turns, and seconds of work. As it is now:
    rows of the table, keys that are held, how old in seconds the newest event was when it was committed, alarms
    that stand, and whether the last turn failed. None is what nobody knows.
    """

    table: str
    batches: int = 0
    events_read: int = 0
    events_applied: int = 0
    events_quarantined: int = 0
    failures: int = 0
    seconds: float = 0.0
    rows: int | None = None
    held_keys: int | None = None
    lag_seconds: float | None = None
    alarms: int = 0
    failing: int = 0

    def since(self, before: TableFigures) -> TableFigures:
        """Return what was done since then, and how the table is now."""
        return replace(
            self,
            batches=self.batches - before.batches,
            events_read=self.events_read - before.events_read,
            events_applied=self.events_applied - before.events_applied,
            events_quarantined=self.events_quarantined - before.events_quarantined,
            failures=self.failures - before.failures,
            seconds=self.seconds - before.seconds,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PipelineFigures:
    """What became of a pipeline: `at` a time in microseconds since 1970, after so many seconds of the run.

    So many tables are `waiting` for their turn. One that `has_failed` was ended by an error as a whole.
    """

    pipeline: str
    run: str
    at: int
    tables: Sequence[TableFigures] = ()
    seconds: float | None = None
    waiting: int | None = None
    has_failed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A figure of a table by its name in `TableFigures`, and what it is of all tables together.

    A `counter` counts from the beginning of the run, a `gauge` is how things are.
    """

    name: str
    kind: Literal["counter", "gauge"]
    unit: Literal["Count", "Seconds"]
    words: str
    of_all: Callable[[Iterable[Number]], Number] = sum

    def of(self, figures: TableFigures) -> Number | None:
        """Return its value."""
        value: Number | None = getattr(figures, self.name)
        return value

    def of_tables(self, tables: Iterable[TableFigures]) -> Number | None:
        """Return its value of all tables; None where nobody knows it of any."""
        known = [value for figures in tables if (value := self.of(figures)) is not None]
        return self.of_all(known) if known else None


METRICS: Final = (
    Metric(name="batches", kind="counter", unit="Count", words="Batches that were committed."),
    Metric(name="events_read", kind="counter", unit="Count", words="Events of these batches."),
    Metric(name="events_applied", kind="counter", unit="Count", words="Events that were applied to the table."),
    Metric(name="events_quarantined", kind="counter", unit="Count", words="Events that went into quarantine."),
    Metric(name="failures", kind="counter", unit="Count", words="Turns of the table that failed."),
    Metric(name="seconds", kind="counter", unit="Seconds", words="Seconds of work on the table."),
    Metric(name="rows", kind="gauge", unit="Count", words="Rows of the table."),
    Metric(name="held_keys", kind="gauge", unit="Count", words="Keys that are held."),
    Metric(
        name="lag_seconds",
        kind="gauge",
        unit="Seconds",
        words="How old the newest event was when it was committed.",
        of_all=max,
    ),
    Metric(name="alarms", kind="gauge", unit="Count", words="Alarms that stand."),
    Metric(name="failing", kind="gauge", unit="Count", words="1 where the last turn failed, else 0."),
)
"""The figures of a table, in the order in which they are shown."""
