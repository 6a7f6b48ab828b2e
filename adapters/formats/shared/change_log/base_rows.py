"""Bases in the place of the events that the mark has passed: the rows that these leave."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame

from lakeward.adapters.formats.shared.change_log.entries import BASE, CHANGE, DELETE, KIND, PLACE, RECORD
from lakeward.adapters.formats.shared.change_log.table import ChangeLogTable
from lakeward.adapters.formats.shared.side_tables.keys import key_text
from lakeward.adapters.spark.history.instants import truncate_instants
from lakeward.adapters.spark.merge.fold.retention import trim_chains
from lakeward.adapters.spark.merge.resolution import keys_of_both, standing
from lakeward.adapters.spark.sql import names
from lakeward.core.events import Mark


def fold_into_bases(
    change_log: ChangeLogTable,
    mark: Mark,
    upto: int,
    held: DataFrame | None,
    give_up: Callable[[DataFrame], None],
) -> None:
    """Put in the place of events that the mark has passed the rows that they leave; one commit.

    What another process has remembered of the next batch meanwhile stays as it is.
    """
    since = change_log.table.version
    events, bases, waiting = change_log.events(upto), change_log.bases(upto), change_log.waiting(upto)
    if events is None or bases is None or waiting is None:
        return
    pinned = keys_of_both(waiting, change_log.dimension.key)
    if held is not None:
        pinned = pinned.unionByName(held)
    truncates = change_log.truncated(upto)
    instants = truncate_instants([truncates], mark.epoch)
    every = {**dict.fromkeys(change_log.batches.truncates), **instants}
    found = trim_chains(change_log.dimension, mark, events, bases, pinned, every, change_log.batches.turned)
    give_up(found.incomplete)
    place = {standing(name): name for name in PLACE}
    folded = found.bases.withColumnsRenamed(place).selectExpr(
        "*",
        f"'{BASE}' AS {KIND}",
        f"{mark.epoch} AS {names.EPOCH}",
        f"{upto}L AS {names.BATCH}",
        f"{key_text(change_log.dimension)} AS {RECORD}",
    )
    passed = f"{names.SEQUENCE} <= CAST('{mark.sequence}' AS {names.sequence_type(change_log.dimension.sequences)})"
    kept = [found.events, folded]
    if truncates is not None:  # of a history, what stays goes on from before them
        stays = instants and not (pinned.isEmpty() and found.events.where(passed).isEmpty())
        kept.append(truncates if stays else truncates.where(f"NOT {passed}"))
    remembered = f"{KIND} IN ('{DELETE}', '{CHANGE}', '{BASE}')"
    if (above := change_log.table.frame(f"{remembered} AND {names.BATCH} > {upto}")) is not None:
        kept.append(above)
    change_log.table.replace(remembered, kept, since)
