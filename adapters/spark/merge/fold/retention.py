"""Forgetting what the mark has passed: DataFrame to DataFrame, as `lakeward.core.merge.change_log.trim`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark.history.version_rows import VERSIONS, VersionRows, tail
from lakeward.adapters.spark.merge.fold.batch_fold import as_it_is, last_noted, newest_noted
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
from lakeward.adapters.spark.merge.resolution import ID, standing
from lakeward.adapters.spark.sql import names
from lakeward.adapters.spark.sql.fragments import place_type
from lakeward.adapters.spark.sql.names import quoted
from lakeward.core.dimension import Dimension
from lakeward.core.events import Mark, Position

_FIRST, _LAST = "_lakeward_first", "_lakeward_last"


@dataclass(frozen=True, slots=True)
class Trimmed:
    """What is left to remember: events as they were given, and bases in the columns of rows that stand.

    Those of `incomplete` found no row to complete, and the mark has passed them.
    """

    events: DataFrame
    bases: DataFrame
    incomplete: DataFrame


def trim_chains(
    dimension: Dimension,
    mark: Mark,
    remembered: DataFrame,
    bases: DataFrame,
    pinned: DataFrame,
    truncates: Mapping[Position, int | None] = MappingProxyType({}),
    turned: int = 0,
) -> Trimmed:
    """Fold what the mark has passed into the bases.

    What was remembered up to the batch that `turned` the table from `ordered` waits for no row: it was applied.

    The chains of `pinned` keys stay as they are; of the `truncates`, in a history with the instants from when they
    count, those do that it has passed.
    """
    key = Key(dimension)
    columns = [name for name in remembered.columns if name != names.CAME_SINCE]
    named = key.named(remembered).selectExpr("*", f"monotonically_increasing_id() AS {ID}")
    named = named.localCheckpoint()
    chain = key.chained(links_of_all(named.sparkSession, named))
    events = chain(named).localCheckpoint()
    stay = chain(pinned.selectExpr(f"{key.text()} AS {KEY}")).select(CHAIN).distinct()
    past = _past(events, mark, dimension).join(stay, CHAIN, "left_anti").localCheckpoint()
    later = events.join(past.select(ID), ID, "left_anti")
    trimming = _Trimming(dimension, VersionRows.of(dimension, dimension.schema, mark.epoch), chain)
    known = trimming.known(bases)
    state, kept = trimming.trimmed(known, past, later, stay, mark, truncates)
    touched = state.where("size(state.incomplete) > 0").select(CHAIN)
    events, known = (frame.join(touched, CHAIN, "left_semi") for frame in (events, known))
    on = trimming.states(events, known, truncates)
    incomplete = on.selectExpr(f"explode(transform(filter(items, e -> {IS_INCOMPLETE}), e -> e.id)) AS {ID}")
    return Trimmed(
        events=later.selectExpr(*map(quoted, columns)),
        bases=kept,
        incomplete=past.where(f"{names.BATCH} > {turned}").join(incomplete, ID, "left_semi"),
    )


@dataclass(frozen=True, slots=True)
class _Trimming:
    """Trims what a table remembers; `chain` gives each key of a frame its chain."""

    dimension: Dimension
    history: VersionRows | None
    chain: Callable[[DataFrame], DataFrame]

    def known(self, bases: DataFrame) -> DataFrame:
        """Return the bases as they are folded, the newest of each key."""
        key = Key(self.dimension)
        if self.history is not None:
            return self.chain(last_noted(bases, key, self.history)).localCheckpoint()
        return self.chain(newest_noted(bases.selectExpr("*", f"{key.text()} AS {KEY}")))

    def states(self, events: DataFrame, bases: DataFrame, truncates: Mapping[Position, int | None]) -> DataFrame:
        """Return for each chain its items, and the state that they leave."""
        versions, sequences = None if self.history is None else self.history.versions, self.dimension.sequences
        items = Items(self.dimension.schema, versions)
        writer = Fold(self.dimension.schema, sequences, versions=versions, soft=self.dimension.is_soft)
        parts = items.of_remembered(events, identifier=ID).unionByName(items.of_rows(bases))
        gathered = parts.groupBy(CHAIN).agg(F.expr("collect_list(item) AS items"))
        every = items.with_truncates("items", truncates, place_type(sequences))
        return gathered.selectExpr(CHAIN, f"{every} AS items").selectExpr("*", f"{writer.over('items')} AS state")

    def trimmed(
        self,
        known: DataFrame,
        past: DataFrame,
        later: DataFrame,
        stay: DataFrame,
        mark: Mark,
        truncates: Mapping[Position, int | None],
    ) -> tuple[DataFrame, DataFrame]:
        """Return the states of the chains that are trimmed, and the bases from then on."""
        passed = {place: instant for place, instant in truncates.items() if place.mark <= mark}
        if self.dimension.keeps_ended:
            waits = len(passed) < len(truncates)
            return self._ended_too(known, past, later, stay, passed, waits_for_truncate=waits)
        key, chains, asked = Key(self.dimension), past.select(CHAIN).distinct(), _asked(past, later)
        touched = known.join(chains, CHAIN, "left_semi")
        state = self.states(asked(past), asked(touched), passed).localCheckpoint()
        rows = rows_of("state.rows", state, self.dimension.schema, standing)
        rows = rows.selectExpr("*", f"{key.text()} AS {KEY}").join(keys_of(later), KEY, "left_semi")
        kept = known.join(chains, CHAIN, "left_anti")
        if passed:
            stands = place_of([standing(name) for name in PLACE_COLUMNS])
            newest = place_literal(max(passed), place_type(self.dimension.sequences))
            kept = kept.where(f"{stands} > {newest}")
        kept = kept.select(*[quoted(name) for name in rows.columns if name != KEY])
        return state, rows.drop(KEY).unionByName(kept)

    def _ended_too(
        self,
        known: DataFrame,
        past: DataFrame,
        later: DataFrame,
        stay: DataFrame,
        passed: Mapping[Position, int | None],
        *,
        waits_for_truncate: bool,
    ) -> tuple[DataFrame, DataFrame]:
        """Trim bases with what ended: those of keys stay that a truncate ended which the mark has not passed."""
        known, staying = known.join(stay, CHAIN, "left_anti"), known.join(stay, CHAIN, "left_semi")
        asked = as_it_is if waits_for_truncate else _asked(past, later)
        state = self.states(asked(past), asked(known), passed).localCheckpoint()
        rows = self._left(state)
        rows = rows if waits_for_truncate else rows.join(keys_of(later), KEY, "left_semi")
        rows = rows.unionByName(staying.select(*map(quoted, rows.columns)))
        return state, rows.drop(KEY) if self.history is None else self.history.bases(rows)

    def _left(self, state: DataFrame) -> DataFrame:
        """Return what a fold leaves of each key, with what ended: rows, or the versions of a history."""
        if self.history is None:
            rows = rows_of("state.rows", state, self.dimension.schema, standing, soft=True)
            return rows.selectExpr("*", f"{Key(self.dimension).text()} AS {KEY}")
        rows = state.selectExpr("explode(map_entries(state.rows)) AS row").where("size(row.value.versions) > 0")
        return rows.selectExpr(f"row.key AS {KEY}", f"{tail('row.value.versions')} AS {VERSIONS}")


def _asked(past: DataFrame, later: DataFrame) -> Callable[[DataFrame], DataFrame]:
    """Return what leaves of a frame the chains that the fold has something to say of.

    Events of theirs are remembered further on, or one that the mark has passed may have found no row to complete.
    """
    in_part = past.where(f"coalesce(size({names.UNSET}), 0) > 0")
    chains = later.select(CHAIN).union(in_part.select(CHAIN)).distinct().localCheckpoint()
    return lambda frame: frame.join(chains, CHAIN, "left_semi")


def _past(events: DataFrame, mark: Mark, dimension: Dimension) -> DataFrame:
    """Return the events that the mark has passed, up to the first of a transaction that it parts."""
    limit = f"CAST('{mark.sequence}' AS {names.sequence_type(dimension.sequences)})"
    passed = events.where(f"{names.SEQUENCE} <= {limit}")
    if not dimension.sequences.are_wide:
        return passed  # all events of a transaction have one commit time
    ends = F.expr(f"min({names.SEQUENCE}) AS {_FIRST}"), F.expr(f"max({names.SEQUENCE}) AS {_LAST}")
    spans = events.where(f"{names.TRANSACTION} IS NOT NULL").groupBy(CHAIN, names.TRANSACTION).agg(*ends)
    parted = spans.where(f"{_FIRST} <= {limit} AND {_LAST} > {limit}")
    parted = parted.groupBy(CHAIN).agg(F.expr(f"min({_FIRST}) AS {_FIRST}"))
    found = passed.join(parted, CHAIN, "left").where(f"{_FIRST} IS NULL OR {names.SEQUENCE} < {_FIRST}")
    return found.select(*map(quoted, events.columns))
