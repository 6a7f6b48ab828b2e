"""Check that what orders the events of a table does not change while it has rows."""

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
"""What may order events without a column of the settings."""

_ZONELESS: Final = frozenset({"int", "bigint", "decimal", "date", "timestamp_ntz"})
"""Types of columns whose values do not depend on a time zone."""


class OrderBy(NamedTuple):
    """A column that orders events, with its format and the zone of its times that have none.

    A source gives it as a text, which the table stores. The format is "" where the settings have none. In texts of
    earlier versions, without zone and format, both are None.
    """

    column: str
    zone: str | None = None
    format: str | None = None

    @classmethod
    def of(cls, text: str) -> Self:
        """Return the value of a stored text.

        >>> OrderBy.of(str(OrderBy("at", "Europe/Berlin", "epoch"))), OrderBy.of("at")
        (OrderBy(column='at', zone='Europe/Berlin', format='epoch'), OrderBy(column='at', zone=None, format=None))
        """
        column, *options = text.split("\n")
        zone, format_ = [*options, None, None][:2]
        return cls(column, zone or None, format_)

    def __str__(self) -> str:
        if self.zone is None and self.format is None:
            return self.column
        parts = (self.column, self.zone or "", self.format)
        return "\n".join(part for part in parts if part is not None)


def refuse_other_order(
    dimension: Dimension, stored: Schema | None, progress: Progress, order_by: str | None
) -> None:
    """Raise SchemaConflict where another column, zone or format orders events than that of the stored positions.

    Two changes are allowed. Where positions are commit times, these may replace the order of objects, which come in
    the order of commits; no object may appear among the earlier ones any more
    (`core.merge.change_log.object_watermark`). After a restart of the log an operator may let messages count by
    their arrival (SEQUENCE-002), and never by their log positions again.
    `core.checks.batch_checks.refuse_other_options` refuses other kinds of sequences.
    """
    stored_order = progress.order_by
    if stored_order is None or order_by is None or progress.sequences is not dimension.sequences:
        return
    if _is_same(dimension, stored, OrderBy.of(stored_order), OrderBy.of(order_by)):
        return
    if (stored_order, order_by) == (LOG_PLACE, ARRIVAL) or (
        not stored_order and dimension.sequences is Sequences.TIMES
    ):
        return
    raise SchemaConflict(
        f"{dimension.name}: the order of its changes cannot be made of something else",
        found=f"the table goes by {_describe(stored_order, order_by)}; "
        f"the settings say {_describe(order_by, stored_order)}",
        todo="Nothing of the table was applied; other tables go on. Set `order_by`, `cursor`, `places`, "
        "`sequence_column`, `timestamp_column`, `source_zone` or `format` as it was, or drop the table and its "
        "side tables, and load it anew (docs/how-to/reload.md#dropping-a-table).",
    )


def _is_same(dimension: Dimension, stored: Schema | None, before: OrderBy, after: OrderBy) -> bool:
    """Return True if both are one column, also under its earlier name, and its values are read alike."""
    renames = dimension.policies.renames
    name, dot, field = before.column.partition(".")
    if after.column not in (before.column, renames.get(before.column), renames.get(name, name) + dot + field):
        return False
    columns = () if stored is None else stored.columns
    is_zoneless = any(c.type.name in _ZONELESS for c in columns if c.name in (before.column, after.column))
    has_same_zone = before.zone in (after.zone, None) or after.zone is None or is_zoneless
    return has_same_zone and (before.format in (after.format, None) or after.format is None)


def _describe(order_by: str, other: str) -> str:
    """Return in words what orders events, with zone and format where they differ from those of `other`."""
    if not order_by:
        return "the order of files and rows alone"
    if order_by in _NO_COLUMNS:
        return order_by
    order, other_order = OrderBy.of(order_by), OrderBy.of(other)
    if order.column != other_order.column:
        return f"`{order.column}`"
    in_zone = f" in {order.zone}" if order.zone is not None and order.zone != other_order.zone else ""
    of_format = (
        ""
        if order.format == other_order.format
        else f" in the format {order.format!r}"
        if order.format
        else " as it is"
    )
    return f"`{order.column}`{in_zone}{of_format}"
