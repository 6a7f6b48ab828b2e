"""Fold remembered events at or below the low watermark into base rows."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame

from lakeward.adapters.formats.shared.change_log.entries import BASE, CHANGE, DELETE, KIND, PLACE, RECORD
from lakeward.adapters.formats.shared.change_log.table import ChangeLogTable
from lakeward.adapters.formats.shared.side_tables.keys import key_text
from lakeward.adapters.spark.history.instants import truncate_instants
from lakeward.adapters.spark.merge.fold.retention import trim_chains
from lakeward.adapters.spark.merge.resolution import keys_of_both, stored_column
from lakeward.adapters.spark.sql import names
from lakeward.core.events import SourceOrder


def fold_into_bases(
    change_log: ChangeLogTable,
    low_watermark: SourceOrder,
    upto: int,
    held: DataFrame | None,
    give_up: Callable[[DataFrame], None],
) -> None:
    """Replace events at or below the low watermark by the rows that they leave, in one commit.

    `held` are the held keys and their positions: their events are kept. `give_up` gets the events that found no row
    to complete. Entries that another process has written for the next batch meanwhile are kept.
    """
    since = change_log.table.version
    events, bases, waiting = change_log.events(upto), change_log.bases(upto), change_log.waiting(upto)
    if events is None or bases is None or waiting is None:
        return
    pinned = keys_of_both(waiting, change_log.dimension.key)
    if held is not None:
        pinned = pinned.unionByName(held)
    truncates = change_log.truncated(upto)
    instants = truncate_instants([truncates], low_watermark.epoch)
    all_truncates = {**dict.fromkeys(change_log.batches.truncates), **instants}
    trimmed = trim_chains(
        change_log.dimension, low_watermark, events, bases, pinned, all_truncates, change_log.batches.ordered_until
    )
    give_up(trimmed.incomplete)
    type_ = names.sequence_type(change_log.dimension.sequences)
    is_passed = f"{names.SEQUENCE} <= CAST('{low_watermark.sequence}' AS {type_})"
    entries = [trimmed.events, _base_entries(change_log, trimmed.bases, low_watermark.epoch, upto)]
    if truncates is not None:  # events of a history that stay are folded from before the truncates
        keeps_truncates = instants and not (pinned.isEmpty() and trimmed.events.where(is_passed).isEmpty())
        entries.append(truncates if keeps_truncates else truncates.where(f"NOT {is_passed}"))
    remembered = f"{KIND} IN ('{DELETE}', '{CHANGE}', '{BASE}')"
    if (newer_entries := change_log.table.frame(f"{remembered} AND {names.BATCH} > {upto}")) is not None:
        entries.append(newer_entries)
    change_log.table.replace(remembered, entries, since)


def _base_entries(change_log: ChangeLogTable, bases: DataFrame, epoch: int, batch: int) -> DataFrame:
    """Return base rows as entries of the change log."""
    place = {stored_column(name): name for name in PLACE}
    return bases.withColumnsRenamed(place).selectExpr(
        "*",
        f"'{BASE}' AS {KIND}",
        f"{epoch} AS {names.EPOCH}",
        f"{batch}L AS {names.BATCH}",
        f"{key_text(change_log.dimension)} AS {RECORD}",
    )
