"""Figures of a run for monitoring: of each table, and of the pipeline."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal, TypeAlias

Number: TypeAlias = int | float


@dataclass(frozen=True, slots=True, kw_only=True)
class TableFigures:
    """Figures of a table.

    Counted since the run began: batches, events by outcome, failed turns, and seconds of work. As of now: rows of
    the table, held keys, the age in seconds of the newest event when it was committed, alarms, and whether the last
    turn failed (1 or 0). None is an unknown figure.
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
        """Return the counts since `before`, with the other figures as they are now."""
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
    """Figures of a pipeline.

    `at` is in microseconds since 1970, `seconds` is the time since the run began. `waiting` is the number of tables
    that wait for their turn. With `has_failed` an error ended the run as a whole.
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
    """A figure of a table, by its name in `TableFigures`, and how to sum it up over all tables.

    A `counter` counts from the beginning of the run, a `gauge` is a current value.
    """

    name: str
    kind: Literal["counter", "gauge"]
    unit: Literal["Count", "Seconds"]
    words: str
    of_all: Callable[[Iterable[Number]], Number] = sum

    def of(self, figures: TableFigures) -> Number | None:
        """Return the value of a table, None if unknown."""
        value: Number | None = getattr(figures, self.name)
        return value

    def of_tables(self, tables: Iterable[TableFigures]) -> Number | None:
        """Return the value of all tables together; None where it is known of none."""
        values = [value for figures in tables if (value := self.of(figures)) is not None]
        return self.of_all(values) if values else None


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
"""The figures of a table in the order in which they are shown."""
