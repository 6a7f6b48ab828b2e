"""Forget events that the low watermark has passed: `lakeward.core.merge.change_log.trim` for frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark.history.version_rows import VERSIONS, VersionRows, tail
from lakeward.adapters.spark.merge.fold.batch_fold import newest_bases, newest_by_key, unchanged
from lakeward.adapters.spark.merge.fold.chain_results import rows_of
from lakeward.adapters.spark.merge.fold.expression import Fold
from lakeward.adapters.spark.merge.fold.fold_items import (
    CHAIN,
    KEY,
    PLACE_COLUMNS,
    Items,
    Key,
    keys_of,
    links_of_all,
    place_literal,
    place_of,
)
from lakeward.adapters.spark.merge.fold.fold_verdicts import IS_INCOMPLETE
from lakeward.adapters.spark.merge.resolution import ID, stored_column
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.fragments import place_type
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.dimension import Dimension
from lakeward.core.events import Position, SourceOrder

_FIRST, _LAST = "_lakeward_first", "_lakeward_last"


@dataclass(frozen=True, slots=True)
class Trimmed:
    """What remains in a change log: events in their given columns, and base rows in the columns of stored rows.

    `incomplete` are events that the low watermark has passed and that found no row to complete.
    """

    events: DataFrame
    bases: DataFrame
    incomplete: DataFrame


def trim_chains(
    dimension: Dimension,
    low_watermark: SourceOrder,
    remembered: DataFrame,
    bases: DataFrame,
    pinned: DataFrame,
    truncates: Mapping[Position, int | None] = MappingProxyType({}),
    ordered_until: int = 0,
) -> Trimmed:
    """Fold the events that the low watermark has passed into the base rows.

    The chains of `pinned` keys are not trimmed. `truncates` are the remembered truncates, in a history each with
    the instant from which it counts; those at or below the low watermark are folded.

    `ordered_until` is the batch with which the table ceased to be `ordered`. Events up to it were applied, so none
    of them waits for a row.
    """
    key = Key(dimension)
    columns = [name for name in remembered.columns if name != names.CAME_SINCE]
    keyed_events = key.with_key_texts(remembered).selectExpr("*", f"monotonically_increasing_id() AS {ID}")
    keyed_events = keyed_events.localCheckpoint()
    chain = key.chained(links_of_all(keyed_events.sparkSession, keyed_events))
    events = chain(keyed_events).localCheckpoint()
    pinned_chains = chain(pinned.selectExpr(f"{key.text()} AS {KEY}")).select(CHAIN).distinct()
    passed = (
        _passed_events(events, low_watermark, dimension).join(pinned_chains, CHAIN, "left_anti").localCheckpoint()
    )
    later = events.join(passed.select(ID), ID, "left_anti")
    trimming = _Trimming(dimension, VersionRows.of(dimension, dimension.schema, low_watermark.epoch), chain)
    newest = trimming.newest_bases(bases)
    state, new_bases = trimming.trim(newest, passed, later, pinned_chains, low_watermark, truncates)
    touched = state.where("size(state.incomplete) > 0").select(CHAIN)
    events, newest = (frame.join(touched, CHAIN, "left_semi") for frame in (events, newest))
    states = trimming.states(events, newest, truncates)
    incomplete = states.selectExpr(f"explode(transform(filter(items, e -> {IS_INCOMPLETE}), e -> e.id)) AS {ID}")
    return Trimmed(
        events=later.selectExpr(*map(quoted, columns)),
        bases=new_bases,
        incomplete=passed.where(f"{names.BATCH} > {ordered_until}").join(incomplete, ID, "left_semi"),
    )


@dataclass(frozen=True, slots=True)
class _Trimming:
    """Trims the change log of a table; `chain` adds to each row of a frame the chain of its key."""

    dimension: Dimension
    history: VersionRows | None
    chain: Callable[[DataFrame], DataFrame]

    def newest_bases(self, bases: DataFrame) -> DataFrame:
        """Return the newest base row of each key, in the columns that the fold reads."""
        key = Key(self.dimension)
        if self.history is not None:
            return self.chain(newest_bases(bases, key, self.history)).localCheckpoint()
        return self.chain(newest_by_key(bases.selectExpr("*", f"{key.text()} AS {KEY}")))

    def states(self, events: DataFrame, bases: DataFrame, truncates: Mapping[Position, int | None]) -> DataFrame:
        """Return for each chain its items, and the state after folding them."""
        versions, sequences = None if self.history is None else self.history.versions, self.dimension.sequences
        items = Items(self.dimension.schema, versions)
        writer = Fold(self.dimension.schema, sequences, versions=versions, soft=self.dimension.is_soft)
        parts = items.of_remembered(events, identifier=ID).unionByName(items.of_rows(bases))
        gathered = parts.groupBy(CHAIN).agg(F.expr("collect_list(item) AS items"))
        all_items = items.with_truncates("items", truncates, place_type(sequences))
        return gathered.selectExpr(CHAIN, f"{all_items} AS items").selectExpr(
            "*", f"{writer.over('items')} AS state"
        )

    def trim(
        self,
        bases: DataFrame,
        passed: DataFrame,
        later: DataFrame,
        pinned_chains: DataFrame,
        low_watermark: SourceOrder,
        truncates: Mapping[Position, int | None],
    ) -> tuple[DataFrame, DataFrame]:
        """Return the states of the trimmed chains, and the new base rows.

        `bases` are the base rows before, `passed` and `later` the events that the low watermark has passed or not.
        """
        passed_truncates = {
            place: instant for place, instant in truncates.items() if place.source_order <= low_watermark
        }
        if self.dimension.keeps_ended:
            waits = len(passed_truncates) < len(truncates)
            return self._trim_with_ended(
                bases, passed, later, pinned_chains, passed_truncates, waits_for_truncate=waits
            )
        key, chains = Key(self.dimension), passed.select(CHAIN).distinct()
        keep_chains = _chains_to_fold(passed, later)
        touched = bases.join(chains, CHAIN, "left_semi")
        state = self.states(keep_chains(passed), keep_chains(touched), passed_truncates).localCheckpoint()
        rows = rows_of("state.rows", state, self.dimension.schema, stored_column)
        rows = rows.selectExpr("*", f"{key.text()} AS {KEY}").join(keys_of(later), KEY, "left_semi")
        other_bases = bases.join(chains, CHAIN, "left_anti")
        if passed_truncates:
            base_place = place_of([stored_column(name) for name in PLACE_COLUMNS])
            newest = place_literal(max(passed_truncates), place_type(self.dimension.sequences))
            other_bases = other_bases.where(f"{base_place} > {newest}")
        other_bases = other_bases.select(*[quoted(name) for name in rows.columns if name != KEY])
        return state, rows.drop(KEY).unionByName(other_bases)

    def _trim_with_ended(
        self,
        bases: DataFrame,
        passed: DataFrame,
        later: DataFrame,
        pinned_chains: DataFrame,
        passed_truncates: Mapping[Position, int | None],
        *,
        waits_for_truncate: bool,
    ) -> tuple[DataFrame, DataFrame]:
        """Trim base rows that include ended versions.

        The base rows of keys that a truncate above the low watermark ended are kept.
        """
        pinned_bases = bases.join(pinned_chains, CHAIN, "left_semi")
        bases = bases.join(pinned_chains, CHAIN, "left_anti")
        keep_chains = unchanged if waits_for_truncate else _chains_to_fold(passed, later)
        state = self.states(keep_chains(passed), keep_chains(bases), passed_truncates).localCheckpoint()
        rows = self._remaining_rows(state)
        rows = rows if waits_for_truncate else rows.join(keys_of(later), KEY, "left_semi")
        rows = rows.unionByName(pinned_bases.select(*map(quoted, rows.columns)))
        return state, rows.drop(KEY) if self.history is None else self.history.bases(rows)

    def _remaining_rows(self, state: DataFrame) -> DataFrame:
        """Return what a fold leaves of each key, ended rows included: rows, or the versions of a history."""
        if self.history is None:
            rows = rows_of("state.rows", state, self.dimension.schema, stored_column, soft=True)
            return rows.selectExpr("*", f"{Key(self.dimension).text()} AS {KEY}")
        rows = state.selectExpr("explode(map_entries(state.rows)) AS row").where("size(row.value.versions) > 0")
        return rows.selectExpr(f"row.key AS {KEY}", f"{tail('row.value.versions')} AS {VERSIONS}")


def _chains_to_fold(passed: DataFrame, later: DataFrame) -> Callable[[DataFrame], DataFrame]:
    """Return a filter for the chains that must be folded.

    These have events that remain remembered, or a passed event that may have found no row to complete.
    """
    in_part = passed.where(f"coalesce(size({names.UNSET}), 0) > 0")
    chains = later.select(CHAIN).union(in_part.select(CHAIN)).distinct().localCheckpoint()
    return lambda frame: frame.join(chains, CHAIN, "left_semi")


def _passed_events(events: DataFrame, low_watermark: SourceOrder, dimension: Dimension) -> DataFrame:
    """Return the events that the low watermark has passed.

    They stop before the first event of a transaction that only partly lies at or below it.
    """
    limit = f"CAST('{low_watermark.sequence}' AS {names.sequence_type(dimension.sequences)})"
    passed = events.where(f"{names.SEQUENCE} <= {limit}")
    if not dimension.sequences.are_wide:
        return passed  # all events of a transaction have one commit time
    ends = F.expr(f"min({names.SEQUENCE}) AS {_FIRST}"), F.expr(f"max({names.SEQUENCE}) AS {_LAST}")
    spans = events.where(f"{names.TRANSACTION} IS NOT NULL").groupBy(CHAIN, names.TRANSACTION).agg(*ends)
    split_transactions = spans.where(f"{_FIRST} <= {limit} AND {_LAST} > {limit}")
    split_transactions = split_transactions.groupBy(CHAIN).agg(F.expr(f"min({_FIRST}) AS {_FIRST}"))
    events_before = passed.join(split_transactions, CHAIN, "left").where(
        f"{_FIRST} IS NULL OR {names.SEQUENCE} < {_FIRST}"
    )
    return events_before.select(*map(quoted, events.columns))
