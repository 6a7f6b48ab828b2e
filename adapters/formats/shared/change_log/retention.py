"""Forgetting: what of the companion no older event can meet any more, and when it goes."""

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
"""Trimming is a commit of its own; there is no hurry with it."""


def trim(
    change_log: ChangeLogTable,
    progress: Progress,
    holds: Sequence[Hold],
    barriers: Callable[[Sequence[Hold]], DataFrame],
    give_up: Callable[[DataFrame], None],
    unsettled: Collection[tuple[int, int]] = (),
) -> None:
    """Forget changes that no older event can meet any more, and what waited once nothing is held.

    Of keys that are held by `holds`, whose `barriers` are their keys and places, all is kept
    that what is mended may meet. `give_up` gets the events that found no row to complete, as do those that were
    `unsettled`, by object and row, when the table became `ordered`.
    """
    change_log.batches.objects(progress)
    folds = change_log.has_parts and not isinstance(change_log.dimension.lateness, Ordered)
    done = [] if folds else [_passed(change_log, progress, holds)]
    if change_log.has_parts and change_log.batches.turned:
        _give_up_unsettled(change_log, progress, unsettled, give_up)
        done.append(change_log.left_behind)
    if progress.epoch > 1:
        kinds = "', '".join((DELETE, CHANGE, BASE, WAITING, RELEASED))
        done.append(f"({KIND} in ('{kinds}') and {names.EPOCH} < {progress.epoch})")
    if folds and progress.mark is not None and progress.mark.epoch == progress.epoch:
        held, remembered = barriers(holds) if holds else None, change_log.events(progress.batch)
        if remembered is not None:
            with spread(remembered.sparkSession, remembered.count()):
                fold_into_bases(change_log, progress.mark, progress.batch, held, give_up)
    if not progress.held:
        done.append(f"({KIND} in ('{WAITING}', '{RELEASED}') and {names.BATCH} <= {progress.batch})")
    if done:
        change_log.table.forget(" or ".join(done))
    for kind in (BATCH, DELETE, CHANGE):
        change_log.table.gather(f"{KIND} = '{kind}' and {names.BATCH} <= {progress.batch}")
    change_log.table.expire()


def _give_up_unsettled(
    change_log: ChangeLogTable,
    progress: Progress,
    unsettled: Collection[tuple[int, int]],
    give_up: Callable[[DataFrame], None],
) -> None:
    """Give up events that waited for their row when the table became `ordered`: none comes any more."""
    events = change_log.every_event(progress.batch) if unsettled else None
    if events is not None:
        types = {names.OBJECT: "bigint", names.ROW: "bigint"}
        wanted = inline(events.sparkSession, types, [*unsettled])
        give_up(events.join(F.broadcast(wanted), [names.OBJECT, names.ROW], "left_semi"))


def _passed(change_log: ChangeLogTable, progress: Progress, holds: Sequence[Hold]) -> str:
    """Return what of the changes does not matter any more, as a condition.

    It is what lies at or below the mark, whichever batch brought it: what is kept of a key is never older than
    what was forgotten of it, and nobody takes it for what stood. Of an `ordered` table it goes by batches.
    """
    least, mark = min((hold.position.sequence for hold in holds), default=None), progress.mark
    pinned = "" if least is None else f" and {names.SEQUENCE} < {least}"
    upto, lateness = progress.batch, change_log.dimension.lateness
    if isinstance(lateness, Ordered):
        upto = beyond(
            {batch: len(found.facts) for batch, found in change_log.batches.records.items()}, lateness.redelivery
        )
    elif mark is None or mark.epoch != progress.epoch:
        upto = 0
    else:
        pinned += f" and {names.SEQUENCE} <= {mark.sequence}"
    return f"({KIND} in ('{DELETE}', '{CHANGE}') and {names.BATCH} <= {upto}{pinned})"


def next_trim(batch: int) -> int:
    """Return the first batch behind this one with which the companion is trimmed."""
    return (batch // _TRIM_EVERY + 1) * _TRIM_EVERY


def beyond(objects: Mapping[int, int], window: int) -> int:
    """Return the newest batch behind which at least `window` objects were delivered, or 0.

    >>> beyond({1: 3, 2: 3, 3: 3}, 5)
    1
    """
    seen = 0
    for batch in sorted(objects, reverse=True):
        if seen >= window:
            return batch
        seen += objects[batch]
    return 0
