"""Trim the change log: forget entries that no older event can meet any more."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.formats.shared.change_log.base_rows import fold_into_bases
from lakeward.adapters.formats.shared.change_log.entries import BASE, BATCH, CHANGE, DELETE, KIND, RELEASED, WAITING
from lakeward.adapters.formats.shared.change_log.table import ChangeLogTable
from lakeward.adapters.spark.execution.parallelism import spread
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.inline_rows import inline
from lakeward.core.dimension import Ordered
from lakeward.core.merge.change_log import Hold
from lakeward.core.progress import Progress

_TRIM_EVERY: Final = 32
"""The change log is trimmed with every batch divisible by this number, since trimming is a commit of its own."""


def trim(
    change_log: ChangeLogTable,
    progress: Progress,
    holds: Sequence[Hold],
    barriers: Callable[[Sequence[Hold]], DataFrame],
    give_up: Callable[[DataFrame], None],
    unsettled: Collection[tuple[int, int]] = (),
) -> None:
    """Forget changes that no older event can meet, and waiting events once nothing is held.

    Of keys held by `holds`, everything is kept that a repaired row may meet; `barriers` returns their keys and
    positions. `give_up` gets the events that found no row to complete, and those that were `unsettled` (by object
    and row) when the table became `ordered`.
    """
    change_log.batches.objects(progress)
    folds = change_log.has_parts and not isinstance(change_log.dimension.lateness, Ordered)
    conditions = [] if folds else [_passed(change_log, progress, holds)]
    if change_log.has_parts and change_log.batches.ordered_until:
        _give_up_unsettled(change_log, progress, unsettled, give_up)
        conditions.append(change_log.outdated_entries)
    if progress.epoch > 1:
        kinds = "', '".join((DELETE, CHANGE, BASE, WAITING, RELEASED))
        conditions.append(f"({KIND} in ('{kinds}') and {names.EPOCH} < {progress.epoch})")
    if folds and progress.low_watermark is not None and _has_passed_events(change_log, progress):
        held_positions, remembered = barriers(holds) if holds else None, change_log.events(progress.batch)
        if remembered is not None:
            with spread(remembered.sparkSession, remembered.count()):
                fold_into_bases(change_log, progress.low_watermark, progress.batch, held_positions, give_up)
    if not progress.held:
        conditions.append(f"({KIND} in ('{WAITING}', '{RELEASED}') and {names.BATCH} <= {progress.batch})")
    if conditions:
        change_log.table.forget(" or ".join(conditions))
    kinds = "', '".join((BATCH, DELETE, CHANGE))
    change_log.table.gather(f"{KIND} in ('{kinds}') and {names.BATCH} <= {progress.batch}")
    change_log.table.expire()


def _has_passed_events(change_log: ChangeLogTable, progress: Progress) -> bool:
    """Return whether the low watermark has passed remembered events; bounds of files mostly decide."""
    low_watermark = progress.low_watermark
    if low_watermark is None or low_watermark.epoch != progress.epoch:
        return False
    condition = f"{KIND} in ('{DELETE}', '{CHANGE}') and {names.BATCH} <= {progress.batch}"
    condition += f" and {names.EPOCH} = {progress.epoch} and {names.SEQUENCE} <= {low_watermark.sequence}"
    return bool(change_log.table.rows(condition, (KIND,)).num_rows)


def _give_up_unsettled(
    change_log: ChangeLogTable,
    progress: Progress,
    unsettled: Collection[tuple[int, int]],
    give_up: Callable[[DataFrame], None],
) -> None:
    """Give up events that waited for their row when the table became `ordered`: no row can come any more."""
    events = change_log.every_event(progress.batch) if unsettled else None
    if events is not None:
        types = {names.OBJECT: "bigint", names.ROW: "bigint"}
        wanted = inline(events.sparkSession, types, [*unsettled])
        give_up(events.join(F.broadcast(wanted), [names.OBJECT, names.ROW], "left_semi"))


def _passed(change_log: ChangeLogTable, progress: Progress, holds: Sequence[Hold]) -> str:
    """Return the condition for changes that no longer matter.

    These are the changes at or below the low watermark, whichever batch brought them. So what is kept of a key is
    never older than what was forgotten. For an `ordered` table it goes by batches.
    """
    least, low_watermark = min((hold.position.sequence for hold in holds), default=None), progress.low_watermark
    pinned = "" if least is None else f" and {names.SEQUENCE} < {least}"
    upto, lateness = progress.batch, change_log.dimension.lateness
    if isinstance(lateness, Ordered):
        upto = beyond(
            {batch: len(record.facts) for batch, record in change_log.batches.records.items()}, lateness.redelivery
        )
    elif low_watermark is None or low_watermark.epoch != progress.epoch:
        upto = 0
    else:
        pinned += f" and {names.SEQUENCE} <= {low_watermark.sequence}"
    return f"({KIND} in ('{DELETE}', '{CHANGE}') and {names.BATCH} <= {upto}{pinned})"


def next_trim(batch: int) -> int:
    """Return the first batch above this one at which the change log is trimmed."""
    return (batch // _TRIM_EVERY + 1) * _TRIM_EVERY


def beyond(objects: Mapping[int, int], window: int) -> int:
    """Return the newest batch after which at least `window` objects were delivered, or 0.

    >>> beyond({1: 3, 2: 3, 3: 3}, 5)
    1
    """
    delivered = 0
    for batch in sorted(objects, reverse=True):
        if delivered >= window:
            return batch
        delivered += objects[batch]
    return 0
