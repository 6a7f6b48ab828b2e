"""The companion table: what a table remembers, and the record of each of its batches.

Entries are stamped with a batch and of a kind each: the `batch` record, a `delete` or
another `change` that an older event may still meet, the `base` of a key (its row before the
first of them), an event `waiting` behind a held key, the word that it was `released`, and
the words of an operator (`ack`, `reload`, `whole`).
What is stamped above the table's own batch does not exist.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import Final, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.spark import names
from lakeward.adapters.spark.fitting import fitted
from lakeward.adapters.spark.histories import previous_columns, remembered_types
from lakeward.adapters.spark.inline import inline
from lakeward.adapters.spark.instants import truncate_instants
from lakeward.adapters.spark.items import said_nothing_of, with_all
from lakeward.adapters.spark.names import column, quoted, text
from lakeward.adapters.spark.resolve import keys_of_both, standing
from lakeward.adapters.spark.spreading import spread
from lakeward.adapters.spark.trimming import trim_chains
from lakeward.adapters.tables import records
from lakeward.adapters.tables.beside import CHANGES, QUARANTINE, Make
from lakeward.adapters.tables.columns import position_of, system_columns
from lakeward.adapters.tables.keys import key_text
from lakeward.adapters.tables.records import BatchRecord
from lakeward.core.books import applied_record
from lakeward.core.dimension import Dimension, Ordered
from lakeward.core.errors import TableError
from lakeward.core.events import Mark, Operation, Position, Sequences
from lakeward.core.evolution import Recorded, SchemaChange
from lakeward.core.facts import PARTIAL
from lakeward.core.holds import Waiter, Waiters
from lakeward.core.ledger import ObjectRecord, SourceObject
from lakeward.core.loads import Reload, Whole
from lakeward.core.memory import Hold
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Ack, Word
from lakeward.core.progress import Progress
from lakeward.core.schema import Column, Schema, Type
from lakeward.core.truncates import remembered_truncates

KIND: Final = "_lakeward_kind"
RECORD: Final = "_lakeward_record"
OLD_RECORD: Final = "_lakeward_old_record"
"""The batch record, or the text of an event's key, and of the key that it left."""

BATCH, DELETE, CHANGE, BASE, WAITING, RELEASED = "batch", "delete", "change", "base", "waiting", "released"
WORDS: Final[Mapping[str, type[Word]]] = {"ack": Ack, "reload": Reload, "whole": Whole}
"""What an operator said, by the kind of its entries."""
EVENT: Final = f"CASE {names.OPERATION} WHEN 'delete' THEN '{DELETE}' ELSE '{CHANGE}' END"
"""The kind of an event that was applied, or overtaken, as SQL."""

Coming: TypeAlias = Mapping[int, Sequence[SchemaChange]]
"""The columns and fields that a table gets with a batch that is worked out, by its number."""
NOTHING_COMES: Final[Coming] = MappingProxyType({})

BY_PLACE: Final = f"bigint(row_number() OVER (ORDER BY {names.OBJECT}, {names.ROW}))"
"""The arrival of events from several objects, as SQL."""

_PLACE: Final = (names.SEQUENCE, names.OBJECT, names.ROW)
_IS_UPDATE: Final = f"{names.OPERATION} = '{Operation.UPDATE.value}'"
_WAITS: Final = f"{KIND} = '{WAITING}' AND {_IS_UPDATE}"
_TRIM_EVERY: Final = 32
"""Trimming is a commit of its own; there is no hurry with it."""


class CompanionTable:
    """The companion of one table. `n` is always the batch that the table itself is at."""

    def __init__(self, dimension: Dimension, make: Make) -> None:
        self.dimension = dimension
        self.table = make(CHANGES, dimension.new_names, lambda: self.rows.names)
        self.records: dict[int, BatchRecord] = {}
        self.words: list[Word] = []
        self.coming: Coming = NOTHING_COMES
        self.epoch = 1
        self.stamped = 0
        self.has_leftovers = False

    @property
    def rows(self) -> Schema:
        """The columns of the rows that it remembers: those of the table, and in a history the values before."""
        return Schema((*self.dimension.schema, *previous_columns(self.dimension)))

    def objects(self, progress: Progress) -> Mapping[str, SourceObject]:
        """Return the objects of all batches up to `n`, reading only the records not read yet."""
        upto = max(self.records, default=-1)
        if upto < progress.batch or not self.records:
            self._read_records(min(upto, progress.batch), progress.batch)
        above = [batch for batch in self.records if batch > progress.batch]
        if max(above, default=0) > progress.batch + 1:
            self.records.clear()  # whoever looks again, where the table has gone on, finds what was said by then
            raise self._is_ahead(progress.batch, max(above))
        if progress.batch and progress.batch not in self.records:
            raise TableError(
                f"{self.dimension.name} is at batch {progress.batch}, of which its companion has no record",
                found=f"{'.'.join(self.table.name)} knows {len(self.records)} batches",
                todo="Put the companion table back, or drop the table to load it anew.",
            )
        self.has_leftovers |= max(self.stamped, *above, 0) > progress.batch
        for batch in above:
            del self.records[batch]
        self.epoch = progress.epoch
        of_epoch = [known for known in self.records.values() if known.epoch == progress.epoch]
        return {found.object.name: found.object for known in of_epoch for found in known.facts}

    def _is_ahead(self, here: int, known: int) -> TableError:
        """Return what to say of a table that knows less than its companion; one at no batch was dropped."""
        name, companion = self.dimension.name, ".".join(self.table.name)
        found = f"its companion {companion} knows batch {known}"
        if not here:
            return TableError(
                f"{name} has no batch, and what stands beside it has",
                found=f"{found}: the table was dropped, or emptied of its history, and that was not",
                todo=f"Put the table back; or drop {companion} as well, and {companion.removesuffix(CHANGES)}"
                f"{QUARANTINE} where there is one, to load the table anew.",
            )
        return TableError(
            f"{name} was rolled back to batch {here}",
            found=found,
            todo=f"`lakeward rollback {name}` takes back what it remembers, too, where the format can. Or roll it "
            "forward again, or drop the table and its companion to load it anew.",
        )

    @property
    def left(self) -> frozenset[str]:
        """The versions of objects of the epochs before that of the table."""
        every = [(known.epoch, found.object) for known in self.records.values() for found in known.facts]
        return frozenset(item.version for epoch, item in every if epoch < self.epoch)

    def _read_records(self, after: int, upto: int) -> None:
        """Read the batch records behind a batch, and the alarms that were let pass."""
        kinds = "', '".join([BATCH, *WORDS])
        condition = f"{KIND} in ('{kinds}') and {names.BATCH} > {after}"
        found = self.table.rows(condition, (KIND, names.BATCH, RECORD)).to_pylist()
        batches = [row[names.BATCH] for row in found if row[KIND] == BATCH]
        if len(batches) > len(set(batches)):
            twice = max(batch for batch in batches if batches.count(batch) > 1)
            raise TableError(
                f"{self.dimension.name}: two processes wrote batch {twice} at once",
                found=f"{'.'.join(self.table.name)} has more than one record of it",
                todo="Only one may run at a time: is the folder `state` of the settings shared and kept? "
                "Remove the record of the one that did not commit, or load the table anew.",
            )
        for row in found:
            if row[KIND] == BATCH:
                self.records[row[names.BATCH]] = records.read(row[names.BATCH], row[RECORD])
        said = [row for row in found if row[KIND] in WORDS and row[names.BATCH] <= upto]
        words = [records.read_word(WORDS[row[KIND]], row[RECORD]) for row in said]
        self.words += [word for word in words if word not in self.words]
        self.words.sort(key=lambda word: word.at)

    def write_down(self, upto: int, word: Word) -> None:
        """Write down what an operator said at batch `n`; the companion is made where it is not there."""
        columns = {**_columns(self.dimension.sequences), **{c.name: c.type for c in self.dimension.schema}}
        kind = next(kind for kind, type_ in WORDS.items() if isinstance(word, type_))
        row = pa.table({KIND: [kind], names.BATCH: [upto], RECORD: [records.written_word(word)]})
        self.table.add(columns, [], row, count=0, partition_by=KIND)
        self.words.append(word)

    def applied(self, progress: Progress, after: int) -> Sequence[ObjectRecord]:
        """Return the objects of the batches behind `after`, up to `n`."""
        self.objects(progress)
        return [
            applied_record(found, batch)
            for batch, remembered in sorted(self.records.items())
            for found in remembered.facts
            if after < batch <= progress.batch
        ]

    def schema_changes(self, upto: int) -> Sequence[Recorded]:
        """Return how the columns differed up to `n`, in order; what stays as it was is told once."""
        condition = f"{KIND} = '{BATCH}' and {names.BATCH} <= {upto}"
        found = self.table.rows(condition, (names.BATCH, RECORD)).to_pylist()
        changes: list[Recorded] = []
        told: list[list[str]] = []
        for row in sorted(found, key=lambda row: row[names.BATCH]):
            content = json.loads(row[RECORD])
            differences = content.get("schema", [])
            if not (content["objects"] or differences):
                continue  # rows that waited are released
            for difference in differences:
                if difference not in told:
                    change, policy = records.difference_of(difference)
                    name = content["objects"][0][0] if content["objects"] else ""
                    changes.append(Recorded(content["at"], name, change, policy))
            told = differences
        return changes

    def remember(self, plan: MergePlan, entries: Mapping[str, DataFrame | None], *, count: int) -> None:
        """Write the record of a batch and its memory, so many entries by kind (as SQL), in one commit."""
        if self.has_leftovers:
            self.table.forget_above(plan.batch - 1)
            self.has_leftovers = False
        columns = {**_columns(self.dimension.sequences), **{c.name: c.type for c in self.dimension.schema}}
        if PARTIAL & plan.facts.may_need and self.dimension.key:
            columns |= self._in_part()
        columns |= remembered_types(self.dimension)
        frames = [self._entries(frame, kind, plan) for kind, frame in entries.items() if frame is not None]
        size = sum(found.object.size for found in plan.facts.objects)
        row = pa.table({KIND: [BATCH], names.BATCH: [plan.batch], RECORD: [records.written(plan)]})
        self.table.add(columns, frames, row, count=count, size=size, partition_by=KIND)
        self.stamped = plan.batch

    def _entries(self, frame: DataFrame, kind: str, plan: MergePlan) -> DataFrame:
        whole = kind in (f"'{WAITING}'", f"'{BASE}'", EVENT)
        wanted = self.dimension.schema.names if whole else self.dimension.key
        wanted = (*wanted, names.UNSET, names.OLD, names.TRANSACTION, *remembered_types(self.dimension))
        own = [name for name in wanted if name in frame.columns]
        if names.OLD in frame.columns:
            old = key_text(self.dimension, f"{names.OLD}.")
            frame = frame.selectExpr("*", f"CASE WHEN {names.OLD} IS NOT NULL THEN {old} END AS {OLD_RECORD}")
            own.append(OLD_RECORD)
        return frame.selectExpr(
            f"{kind} AS {KIND}",
            f"{plan.epoch} AS {names.EPOCH}",
            *(names.SEQUENCE, names.OBJECT, names.ROW, names.OPERATION, names.TIME),
            f"{plan.batch}L AS {names.BATCH}",
            f"{key_text(self.dimension)} AS {RECORD}",
            *map(quoted, own),
        )

    def _in_part(self) -> Mapping[str, Type]:
        """Return the columns of events that are sent in part, or change their key."""
        key = tuple(column for column in self.dimension.schema if column.name in self.dimension.key)
        return {
            names.UNSET: Type("list", parts=(Column("element", Type("string")),)),
            names.OLD: Type("struct", parts=key),
            OLD_RECORD: Type("string"),
            names.TRANSACTION: Type("string"),
        }

    @property
    def has_parts(self) -> bool:
        """Whether some event that is remembered may have been sent in part."""
        return names.UNSET in self.table.columns

    @property
    def object_names(self) -> Mapping[int, str]:
        """The names of the objects of all batches whose records are known, by their order."""
        found = (found.object for known in self.records.values() for found in known.facts)
        return {item.order: item.name for item in found}

    @property
    def truncates(self) -> frozenset[Position]:
        """The truncates of the table's epoch."""
        of_epoch = [found.record for found in self.records.values() if found.epoch == self.epoch]
        return remembered_truncates(record for record in of_epoch if record is not None)

    @property
    def turned(self) -> int:
        """The newest batch of a time when the table was `ordered` (0: none).

        From then on what stands of a row counts: of what was remembered up to it, there is no more than the events
        that left none (`leave_departures` of the core).
        """
        return max((batch for batch, found in self.records.items() if found.ordered), default=0)

    @property
    def counts(self) -> str:
        """Which entries of a key tell how it stands, as a condition."""
        left = f" or {OLD_RECORD} is not null" if self.has_parts else ""
        return f"({names.BATCH} > {self.turned} or {KIND} = '{DELETE}'{left})"

    @property
    def left_behind(self) -> str:
        """Which entries tell how a key stood before the table was `ordered`, and count no more, as a condition.

        The companion has `has_parts`: else nothing waits for its row.
        """
        truncate = Operation.TRUNCATE.value
        changes = f"{KIND} = '{CHANGE}' and {names.OPERATION} != '{truncate}' and {OLD_RECORD} is null"
        return f"(({KIND} = '{BASE}' or ({changes})) and {names.BATCH} <= {self.turned})"

    def events(self, upto: int) -> DataFrame | None:
        """Return the events of keys that are remembered, up to `n`, or None where there is no companion."""
        found = self._changes(upto, f"!= '{Operation.TRUNCATE.value}' AND {self.counts}")
        return None if found is None else self._with_what_came(found)

    def _with_what_came(self, events: DataFrame) -> DataFrame:
        """Say of updates which columns and fields the table got since they came: they say nothing of those."""
        nothing = "CAST(array() AS array<string>)"
        since = self._with_added(nothing, _IS_UPDATE)
        return events if since == nothing else events.withColumn(names.CAME_SINCE, F.expr(since))

    def _with_added(self, listed: str, of: str) -> str:
        """Return names as columns are called now; of events `of` a condition also those that came later."""
        for batch, remembered in sorted(self.records.items()):
            is_before = f"{names.BATCH} < {batch}"
            listed = _called_now(listed, remembered.renames, is_before)
            listed = _without(listed, remembered.added, f"{of} AND {is_before}")
        listed = _called_now(listed, self.dimension.policies.renames, "true")
        for batch, added in self.coming.items():
            listed = _without(listed, added, f"{of} AND {names.BATCH} < {batch}")
        return listed

    def every_event(self, upto: int) -> DataFrame | None:
        """Return the events of keys that are there, up to `n`, whether or not they still tell how one stands."""
        return self._changes(upto, f"!= '{Operation.TRUNCATE.value}'")

    def truncated(self, upto: int) -> DataFrame | None:
        """Return the truncates that are remembered, up to `n`, or None where there is no companion."""
        return self._changes(upto, f"= '{Operation.TRUNCATE.value}'")

    def _changes(self, upto: int, is_wanted: str) -> DataFrame | None:
        kinds = f"{KIND} IN ('{DELETE}', '{CHANGE}')"
        return self._frame(f"{kinds} AND {names.OPERATION} {is_wanted}", upto)

    def facts(self, upto: int) -> list[DataFrame]:
        """Return the events that are remembered, and those that wait, up to `n`."""
        events, waiting = self.events(upto), self.waiting(upto)
        if events is not None and names.CAME_SINCE in events.columns:
            events = with_all(events)
            events = events.withColumn(names.UNSET, F.expr(said_nothing_of(events))).drop(names.CAME_SINCE)
        return [found for found in (events, waiting) if found is not None]

    def bases(self, upto: int) -> DataFrame | None:
        """Return the bases, up to `n`; the position of the row is named as that of a row that stands."""
        found = self._frame(f"{KIND} = '{BASE}' AND {names.BATCH} > {self.turned}", upto)
        place = {name: standing(name) for name in _PLACE}
        return None if found is None else found.withColumnsRenamed(place)

    def deletes(self, upto: int) -> DataFrame | None:
        """Return key and position of the remembered deletes, up to `n`."""
        return self._kind(DELETE, upto)

    def waiting(self, upto: int) -> DataFrame | None:
        """Return the entries of events that wait as of `n`, or None where there is no companion."""
        waiting, released = (self._kind(kind, upto) for kind in (WAITING, RELEASED))
        if waiting is None or released is None:
            return None
        return waiting.join(released, [names.OBJECT, names.ROW], "left_anti")

    def waiting_events(self, upto: int, keys: Sequence[str] | None = None) -> DataFrame:
        """Return the events that wait as of `n`, as a frame of events: those of these keys (as texts).

        Where none are named, or key changes may join keys, it is all of them.
        """
        waiting = self.waiting(upto)
        if waiting is None:
            raise TableError(
                f"{self.dimension.name} has no companion, so nothing can wait",
                todo="Put the companion table back, or drop the table to load it anew.",
            )
        freed = waiting if self.has_parts or keys is None else waiting.where(column(RECORD).isin(list(keys)))
        wanted = (names.UNSET, names.OLD, names.TRANSACTION, names.INSTANT)
        in_part = [name for name in wanted if name in waiting.columns]
        return freed.selectExpr(
            *map(quoted, self.dimension.schema.names),
            *(names.OPERATION, names.SEQUENCE, names.OBJECT, names.ROW, names.TIME),
            *in_part,
            f"{BY_PLACE} AS {names.ARRIVAL}",
            *[f"string(NULL) AS {name}" for name in (names.REASON, names.DETAIL, names.TEXT)],
        )

    def waiters(self, upto: int) -> Waiters[str]:
        """Return the events that wait, with the texts of their keys; no Spark is needed."""
        wanted = (KIND, *names.POSITION, RECORD, *([OLD_RECORD] if self.has_parts else []))
        condition = f"{KIND} in ('{WAITING}', '{RELEASED}') and {names.BATCH} <= {upto}"
        condition += f" and {names.EPOCH} = {self.epoch}"
        rows = self.table.rows(condition, wanted).to_pylist()
        released = {(row[names.OBJECT], row[names.ROW]) for row in rows if row[KIND] == RELEASED}
        return Waiters.of(
            Waiter(
                position_of(row),
                tuple(key for key in (row.get(OLD_RECORD), row[RECORD]) if key is not None),
            )
            for row in rows
            if row[KIND] == WAITING and (row[names.OBJECT], row[names.ROW]) not in released
        )

    def _kind(self, kind: str, upto: int) -> DataFrame | None:
        return self._frame(f"{KIND} = '{kind}'", upto)

    def _frame(self, condition: str, upto: int) -> DataFrame | None:
        """Return entries up to `n` as the table has its columns now; what was not sent has the new names, too.

        An update that waits did not send the columns that the table got since.
        Before the first batch there are none: what a person said by then (`write_down`) has no columns for them.
        """
        within = f"{names.BATCH} <= {upto} AND {names.EPOCH} = {self.epoch}"
        found = self.table.frame(f"{condition} AND {within}") if upto else None
        if found is None:
            return None
        found = fitted(found, self.rows)
        if names.UNSET not in found.columns:
            return found
        unset = self._with_added(names.UNSET, _WAITS)
        return found if unset == names.UNSET else found.withColumn(names.UNSET, F.expr(unset))

    def trim(
        self,
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
        if progress.batch % _TRIM_EVERY:
            return
        self.objects(progress)
        folds = self.has_parts and not isinstance(self.dimension.lateness, Ordered)
        done = [] if folds else [self._passed(progress, holds)]
        if self.has_parts and self.turned:
            self._give_up_unsettled(progress, unsettled, give_up)
            done.append(self.left_behind)
        if progress.epoch > 1:
            kinds = "', '".join((DELETE, CHANGE, BASE, WAITING, RELEASED))
            done.append(f"({KIND} in ('{kinds}') and {names.EPOCH} < {progress.epoch})")
        if folds and progress.mark is not None and progress.mark.epoch == progress.epoch:
            held, remembered = barriers(holds) if holds else None, self.events(progress.batch)
            if remembered is not None:
                with spread(remembered.sparkSession, remembered.count()):
                    self._fold_into_bases(progress.mark, progress.batch, held, give_up)
        if not progress.held:
            done.append(f"({KIND} in ('{WAITING}', '{RELEASED}') and {names.BATCH} <= {progress.batch})")
        if done:
            self.table.forget(" or ".join(done))
        for kind in (BATCH, DELETE, CHANGE):
            self.table.gather(f"{KIND} = '{kind}' and {names.BATCH} <= {progress.batch}")
        self.table.expire()

    def _give_up_unsettled(
        self, progress: Progress, unsettled: Collection[tuple[int, int]], give_up: Callable[[DataFrame], None]
    ) -> None:
        """Give up events that waited for their row when the table became `ordered`: none comes any more."""
        events = self.every_event(progress.batch) if unsettled else None
        if events is not None:
            types = {names.OBJECT: "bigint", names.ROW: "bigint"}
            wanted = inline(events.sparkSession, types, [*unsettled])
            give_up(events.join(F.broadcast(wanted), [names.OBJECT, names.ROW], "left_semi"))

    def _passed(self, progress: Progress, holds: Sequence[Hold]) -> str:
        """Return what of the changes does not matter any more, as a condition.

        It is what lies at or below the mark, whichever batch brought it: what is kept of a key is never older than
        what was forgotten of it, and nobody takes it for what stood. Of an `ordered` table it goes by batches.
        """
        least, mark = min((hold.position.sequence for hold in holds), default=None), progress.mark
        pinned = "" if least is None else f" and {names.SEQUENCE} < {least}"
        upto, lateness = progress.batch, self.dimension.lateness
        if isinstance(lateness, Ordered):
            upto = beyond({batch: len(found.facts) for batch, found in self.records.items()}, lateness.redelivery)
        elif mark is None or mark.epoch != progress.epoch:
            upto = 0
        else:
            pinned += f" and {names.SEQUENCE} <= {mark.sequence}"
        return f"({KIND} in ('{DELETE}', '{CHANGE}') and {names.BATCH} <= {upto}{pinned})"

    def _fold_into_bases(
        self, mark: Mark, upto: int, held: DataFrame | None, give_up: Callable[[DataFrame], None]
    ) -> None:
        """Put in the place of events that the mark has passed the rows that they leave; one commit.

        What another process has remembered of the next batch meanwhile stays as it is.
        """
        since = self.table.version
        events, bases, waiting = self.events(upto), self.bases(upto), self.waiting(upto)
        if events is None or bases is None or waiting is None:
            return
        pinned = keys_of_both(waiting, self.dimension.key)
        if held is not None:
            pinned = pinned.unionByName(held)
        truncates = self.truncated(upto)
        instants = truncate_instants([truncates], mark.epoch)
        every = {**dict.fromkeys(self.truncates), **instants}
        found = trim_chains(self.dimension, mark, events, bases, pinned, every, self.turned)
        give_up(found.incomplete)
        place = {standing(name): name for name in _PLACE}
        folded = found.bases.withColumnsRenamed(place).selectExpr(
            "*",
            f"'{BASE}' AS {KIND}",
            f"{mark.epoch} AS {names.EPOCH}",
            f"{upto}L AS {names.BATCH}",
            f"{key_text(self.dimension)} AS {RECORD}",
        )
        passed = f"{names.SEQUENCE} <= CAST('{mark.sequence}' AS {names.sequence_type(self.dimension.sequences)})"
        kept = [found.events, folded]
        if truncates is not None:  # of a history, what stays goes on from before them
            stays = instants and not (pinned.isEmpty() and found.events.where(passed).isEmpty())
            kept.append(truncates if stays else truncates.where(f"NOT {passed}"))
        remembered = f"{KIND} IN ('{DELETE}', '{CHANGE}', '{BASE}')"
        if (above := self.table.frame(f"{remembered} AND {names.BATCH} > {upto}")) is not None:
            kept.append(above)
        self.table.replace(remembered, kept, since)


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


def _columns(sequences: Sequences) -> Mapping[str, Type]:
    """Return the columns of the companion besides those of the table."""
    return {
        KIND: Type("string"),
        **system_columns(sequences),
        names.OPERATION: Type("string"),
        names.TIME: Type("bigint"),
        RECORD: Type("string"),
    }


def _called_now(listed: str, renames: Mapping[str, str], condition: str) -> str:
    """Return a list of names with the new ones in the place of old ones, in rows that meet a condition, as SQL."""
    if not renames:
        return listed
    words = []
    for old, new in renames.items():
        words.append(f"WHEN x = {text(old)} AND {condition} THEN {text(new)}")
        within = f"concat({text(quoted(new))}, substring(x, {len(quoted(old)) + 1}))"
        words.append(f"WHEN startswith(x, {text(quoted(old) + '.')}) AND {condition} THEN {within}")
    return f"transform({listed}, x -> CASE {' '.join(words)} ELSE x END)"


def _without(listed: str, added: Sequence[SchemaChange], condition: str) -> str:
    """Return a list of names with those that updates lack which meet a condition, as SQL."""
    if not added:
        return listed
    lacking = ", ".join(text(quoted(*change.names) if change.is_nested else change.path) for change in added)
    more = f"array_union(coalesce({listed}, CAST(array() AS array<string>)), array({lacking}))"
    return f"CASE WHEN {condition} THEN {more} ELSE {listed} END"
