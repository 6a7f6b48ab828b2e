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
    """A column whose values put events in order: its format, and the zone of times in it that have none.

    A source tells it as a text, which a table keeps. The format is "" where the settings tell none. Neither zone
    nor format is known of one that was written down without it.
    """

    column: str
    zone: str | None = None
    format: str | None = None

    @classmethod
    def of(cls, text: str) -> Self:
        """Read it from its text.

        >>> OrderBy.of(str(OrderBy("at", "Europe/Berlin", "epoch"))), OrderBy.of("at")
        (OrderBy(column='at', zone='Europe/Berlin', format='epoch'), OrderBy(column='at', zone=None, format=None))
        """
        column, *told = text.split("\n")
        zone, format_ = [*told, None, None][:2]
        return cls(column, zone or None, format_)

    def __str__(self) -> str:
        if self.zone is None and self.format is None:
            return self.column
        told = (self.column, self.zone or "", self.format)
        return "\n".join(one for one in told if one is not None)


def refuse_other_order(
    dimension: Dimension, stored: Schema | None, progress: Progress, order_by: str | None
) -> None:
    """Refuse to put events in order by another column than before: the places of rows that stand are by that one.

    Or by times of another zone or format. Where places are commit times, these may take over from the order of
    objects, which come in that of commits; none may appear among those any more
    (`core.merge.change_log.object_watermark`).
    Where a log starts over, an operator may let messages count by their arrival from then on (SEQUENCE-002), and
    never by their places again. What else an order may be made of is refused by
    `lakeward.core.checks.batch_checks.refuse_other_options`.
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
        "`sequence_column`, `timestamp_column`, `source_zone` or `format` as it was, or drop the table and what is "
        "kept beside it, and load it anew (docs/how-to/reload.md#dropping-a-table).",
    )


def _is_same(dimension: Dimension, stored: Schema | None, known: OrderBy, now: OrderBy) -> bool:
    """Whether both are one column, by its name now or before, and its values are read as they were."""
    renames = dimension.policies.renames
    name, dot, field = known.column.partition(".")
    if now.column not in (known.column, renames.get(known.column), renames.get(name, name) + dot + field):
        return False
    columns = () if stored is None else stored.columns
    is_zoneless = any(c.type.name in _ZONELESS for c in columns if c.name in (known.column, now.column))
    has_same_zone = known.zone in (now.zone, None) or now.zone is None or is_zoneless
    return has_same_zone and (known.format in (now.format, None) or now.format is None)


def _words(order_by: str, other: str) -> str:
    """Return what puts events in order in words, with zone and format where these differ from another's."""
    if not order_by:
        return "the order of files and rows alone"
    if order_by in _NO_COLUMNS:
        return order_by
    own, than = OrderBy.of(order_by), OrderBy.of(other)
    if own.column != than.column:
        return f"`{own.column}`"
    in_zone = f" in {own.zone}" if own.zone is not None and own.zone != than.zone else ""
    of_format = "" if own.format == than.format else f" in the format {own.format!r}" if own.format else " as it is"
    return f"`{own.column}`{in_zone}{of_format}"
