"""What puts the events of a table in order, and why that cannot become something else under its rows."""

from __future__ import annotations

from typing import Final, NamedTuple, Self

from lakeward.core.dimension import Dimension
from lakeward.core.errors import SchemaConflict
from lakeward.core.events import Sequences
from lakeward.core.progress import Progress
from lakeward.core.schema import Schema

COMMIT_TIME: Final = "the commit time"
LOG_PLACE: Final = "the place in the log of the source"
ARRIVAL: Final = "arrival alone"
_NO_COLUMNS: Final = frozenset({COMMIT_TIME, LOG_PLACE, ARRIVAL})
"""What puts events in order where that is no column of the settings."""

_ZONELESS: Final = frozenset({"int", "bigint", "decimal", "date", "timestamp_ntz"})
"""The types of columns whose values no zone changes."""


class OrderBy(NamedTuple):
    """A column whose values put events in order, and the zone of times in it that are written without one.

    A source tells it as a text, which a table keeps. No zone is known of one that was written down without it.
    """

    column: str
    zone: str | None = None

    @classmethod
    def of(cls, text: str) -> Self:
        """Read it from its text.

        >>> OrderBy.of(str(OrderBy("at", "Europe/Berlin"))), OrderBy.of("at")
        (OrderBy(column='at', zone='Europe/Berlin'), OrderBy(column='at', zone=None))
        """
        column, _, zone = text.partition("\n")
        return cls(column, zone or None)

    def __str__(self) -> str:
        return self.column if self.zone is None else f"{self.column}\n{self.zone}"


def refuse_other_order(
    dimension: Dimension, stored: Schema | None, progress: Progress, order_by: str | None
) -> None:
    """Refuse to put events in order by another column than before: the places of rows that stand are by that one.

    Or by times of another zone. Where places are commit times, these may take over from the order of objects, which
    come in that of commits. Where a log starts over, an operator may let messages count by their arrival from then
    on (SEQUENCE-002), and never by their places again. What else an order may be made of is refused by
    `lakeward.core.refusals.refuse_other_options`.
    """
    known = progress.order_by
    if known is None or order_by is None or progress.sequences is not dimension.sequences:
        return
    if _is_same(dimension, stored, OrderBy.of(known), OrderBy.of(order_by)):
        return
    if (known, order_by) == (LOG_PLACE, ARRIVAL) or (not known and dimension.sequences is Sequences.TIMES):
        return
    raise SchemaConflict(
        f"{dimension.name}: the order of its changes cannot be made of something else",
        found=f"the table goes by {_words(known, order_by)}; the settings say {_words(order_by, known)}",
        todo="Nothing of the table was applied; other tables go on. Set `order_by`, `cursor`, `places`, "
        "`sequence_column`, `timestamp_column` or `source_zone` as it was, or drop the table and what is kept "
        "beside it, and load it anew (docs/reload.md#dropping-a-table).",
    )


def _is_same(dimension: Dimension, stored: Schema | None, known: OrderBy, now: OrderBy) -> bool:
    """Whether both are one column, by its name now or before, and its values are read as they were."""
    renames = dimension.policies.renames
    name, dot, field = known.column.partition(".")
    if now.column not in (known.column, renames.get(known.column), renames.get(name, name) + dot + field):
        return False
    columns = () if stored is None else stored.columns
    is_zoneless = any(c.type.name in _ZONELESS for c in columns if c.name in (known.column, now.column))
    return known.zone in (now.zone, None) or now.zone is None or is_zoneless


def _words(order_by: str, other: str) -> str:
    """Return what puts events in order in words, with the zone where that differs from another."""
    if not order_by:
        return "the order of files and rows alone"
    column, zone = OrderBy.of(order_by)
    in_zone = f" in {zone}" if zone is not None and column == OrderBy.of(other).column else ""
    return order_by if order_by in _NO_COLUMNS else f"`{column}`{in_zone}"
