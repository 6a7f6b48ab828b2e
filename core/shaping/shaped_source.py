"""A source whose rows pass the rules of their table before anything else reads them.

The wrapped source reads its own columns; pipeline and table know those that the rules make. An adapter shapes
frames.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final, Generic, Protocol, TypeVar

from lakeward.core.dimension import Dimension, Lateness
from lakeward.core.errors import AlarmRaised, ConfigError, RepairError
from lakeward.core.events import Position, Sequences
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import ObjectHistory, ObjectSelection
from lakeward.core.merge.facts import Capability
from lakeward.core.ports import Batch, Cells, Entry, Source
from lakeward.core.schema import Schema
from lakeward.core.schema_changes.evolution import evolve
from lakeward.core.shaping.column_rules import Cast, Rule
from lakeward.core.shaping.file_rules import Input, find_breaches
from lakeward.core.shaping.quality_rules import Action, QualityRule, RowRule
from lakeward.core.shaping.recomputed_columns import RecomputedColumns, recomputed
from lakeward.core.shaping.reshaping_rules import Flatten
from lakeward.core.shaping.shape import Shape, check_moves, shape, source_key

F = TypeVar("F")


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRules:
    """The rules of one table, in order, and the declared columns of its source, if any."""

    columns: tuple[Rule, ...] = ()
    quality: tuple[QualityRule, ...] = ()
    source: Schema = field(default_factory=lambda: Schema(()))

    def __bool__(self) -> bool:
        return bool(self.columns or self.quality)

    @property
    def refuse(self) -> bool:
        """Whether a rule may refuse a row that the source could read."""
        may_refuse = any(isinstance(rule, Cast | Flatten) for rule in self.columns)
        return may_refuse or any(
            isinstance(rule, RowRule) and rule.action is Action.QUARANTINE for rule in self.quality
        )

    def complete(self, incoming: Schema) -> Schema:
        """Return the columns of a batch, with the declared ones that it lacks added at their places."""
        declared = [incoming.find(item.name) or item for item in self.source]
        return Schema((*declared, *[item for item in incoming if self.source.find(item.name) is None]))

    def shape(self, incoming: Schema) -> Shape:
        """Return the result of the rules for a batch's columns, as if it lacked none."""
        return shape(self.columns, self.complete(incoming))

    def recomputed(self, form: Shape, key: Sequence[str], may_need: frozenset[Capability]) -> RecomputedColumns:
        """Return how the rules compute columns from the stored row.

        Raises ConfigError where they must and cannot, or where they make the key of rows that change it.
        """
        moves = Capability.KEY_CHANGE in may_need
        if self.columns and moves:
            check_moves(form, key)
        return recomputed(form, key, in_part=Capability.UNSET in may_need and bool(key), moves=moves)


@dataclass(frozen=True, slots=True)
class ShapedBatch(Generic[F]):
    """A batch after the rules, with the figures for input rules; `absent` are table columns that it lacks."""

    batch: Batch[F]
    inputs: tuple[Input, ...] = ()
    absent: tuple[str, ...] = ()


class Shaper(Protocol[F]):
    """The port that applies the rules of one table to frames."""

    @property
    def rules(self) -> TableRules:
        """The rules."""
        ...

    def check(self) -> None:
        """Raise ConfigError for faults of the rules, before anything is read."""
        ...

    def shape(self, batch: Batch[F], dimension: Dimension, epoch: int) -> ShapedBatch[F]:
        """Return a batch after the rules, with new facts; `dimension` is that of the table."""
        ...

    def recomputed(self, dimension: Dimension, may_need: frozenset[Capability]) -> RecomputedColumns:
        """Return how the rules compute columns from the stored row, for the declared columns."""
        ...

    def repaired(self, frame: F, dimension: Dimension) -> F:
        """Return repaired rows after the rules; raises RepairError where one breaks a rule.

        They have the columns of the source, and the dimension those of the table.
        """
        ...


@dataclass(frozen=True, slots=True)
class ShapedSource(Generic[F]):
    """A source with the rules of one table applied to its rows."""

    source: Source[F]
    shaper: Shaper[F]

    @property
    def lateness(self) -> Lateness:
        """The lateness of the source."""
        return self.source.lateness

    @property
    def sequences(self) -> Sequences:
        """The sequences of the source."""
        return self.source.sequences

    def order_by(self, dimension: Dimension) -> str | None:
        """Return the column that puts events in order."""
        return self.source.order_by(self._at_the_source(dimension))

    def key_form(self, dimension: Dimension) -> str | None:
        """Return what changes the values that the key is made of."""
        return self.source.key_form(self._at_the_source(dimension))

    def select_objects(self, dimension: Dimension, history: ObjectHistory) -> ObjectSelection:
        """Choose the next objects."""
        return self.source.select_objects(self._at_the_source(dimension), history)

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[F]:
        """Read the objects and apply the rules.

        An object that breaks an input rule, and all after it, are left out.

        Raises AlarmRaised where that is the first object.
        """
        selection = replace(selection, load_writer=None)  # rules change the rows before they are written
        if self.shaper.rules.columns:
            selection = replace(selection, columns=None)  # the source has other columns than the table
        batch = self.source.read(self._at_the_source(dimension), selection, epoch)
        if not batch.facts.objects:
            return batch
        try:
            shaped = self.shaper.shape(batch, dimension, epoch)
        except ConfigError as error:
            batch.close()
            raise ConfigError(f"{dimension.name}: {error.what}", found=error.found, todo=error.todo) from error
        except BaseException:
            batch.close()
            raise
        breaches = find_breaches(self.shaper.rules.quality, shaped.inputs, shaped.absent)
        if not breaches:
            return shaped.batch
        shaped.batch.close()
        objects = [item.object for item in batch.facts.objects]
        first_bad = [item.name for item in objects].index(breaches[0][0])
        if first_bad == 0 or selection.load_epoch is not None:
            raise _quality_alarm(dimension, *breaches[0])
        readable = self.read(dimension, replace(selection, objects=tuple(objects[:first_bad]), remaining=()), epoch)
        if not readable.facts.objects:
            raise _quality_alarm(dimension, *breaches[0])
        return readable

    def find_missing(self, dimension: Dimension, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Return the names of applied objects that cannot be read again."""
        return self.source.find_missing(self._at_the_source(dimension), objects)

    def truncation(self, dimension: Dimension, place: Position, time: int | None) -> F:
        """Return a frame of one truncate, with the columns of the table."""
        return self.source.truncation(dimension, place, time)

    def archive(self, dimension: Dimension, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Move applied objects into the archive."""
        return self.source.archive(dimension, objects)

    def written(self, dimension: Dimension) -> Dimension:
        """Return the dimension with the columns of the source: rows are repaired in these, then shaped again.

        Raises RepairError where the declared columns are not all that the columns of the table are made of.
        """
        rules = self.shaper.rules
        if not rules.columns:
            return self.source.written(dimension)
        if not len(rules.source):
            raise RepairError(
                f"{dimension.name} has column rules, and its rows cannot be fixed",
                found="the columns of its source are not declared",
                todo=f"Declare them, as `columns` under [tables], or discard the rows. {_AGAIN}",
            )
        shaped = rules.shape(rules.source).schema
        evolution = evolve(dimension.schema, shaped, dimension.policies, dimension.key)
        if len(dimension.schema) and (evolution.refused or evolution.changes or evolution.absent):
            differences = [*map(str, (*evolution.refused, *evolution.changes)), *evolution.absent]
            raise RepairError(
                f"{dimension.name}: the rules make other columns than the table has, and its rows cannot be fixed",
                found=", ".join(dict.fromkeys(differences)),
                todo=f"Declare what the source has, and run, or discard the rows. {_AGAIN}",
            )
        return self.source.written(self._at_the_source(dimension))

    def recomputed(self, dimension: Dimension, may_need: frozenset[Capability]) -> RecomputedColumns:
        """Return how the rules compute columns from the stored row.

        Raises ConfigError where they must and cannot, RepairError where only the files have the source columns.
        """
        if not self.shaper.rules.columns:
            return RecomputedColumns()
        if len(self.shaper.rules.source):
            return self.shaper.recomputed(dimension, may_need)
        if Capability.UNSET in may_need:
            raise RepairError(
                f"{dimension.name} has column rules, and rows that send a part of their cells wait",
                found="the columns of its source are not declared",
                todo="Declare them, as `columns` under [tables]: then it is known what the rules make of the rows.",
            )
        return RecomputedColumns()

    def cells(self, dimension: Dimension, entry: Entry) -> Cells:
        """Return the cells of a row in quarantine, in the columns of the source."""
        return self.source.cells(self._of_rows(dimension), entry)

    def repair_row(self, dimension: Dimension, entries: Sequence[Entry]) -> F:
        """Return repaired rows as events of the table; raises RepairError where one does not fit, or is refused."""
        return self.shaper.repaired(self.source.repair_row(self._of_rows(dimension), entries), dimension)

    def _of_rows(self, dimension: Dimension) -> Dimension:
        return self._at_the_source(dimension) if self.shaper.rules.columns else dimension

    def _at_the_source(self, dimension: Dimension) -> Dimension:
        """Return the dimension with the columns and the key of the source.

        Without declared columns, only the shaper knows of which columns rules make a key. Where no rule makes it,
        it is the key of the source, by which the row before a key change is known.
        """
        rules, declared, key = self.shaper.rules, self.shaper.rules.source, dimension.key
        if len(declared):
            key = source_key(rules.shape(declared), key)
        elif any(rule.may_make(name) for rule in rules.columns for name in key):
            key = ()
        keeps_text = dimension.keeps_text or rules.refuse
        return replace(
            dimension, schema=declared, key=key, keeps_text=keeps_text, has_column_rules=bool(rules.columns)
        )


_AGAIN: Final = "The source may write them again."


def _quality_alarm(dimension: Dimension, name: str, breach: str) -> AlarmRaised:
    return AlarmRaised(
        "QUALITY-001",
        f"{dimension.name}: {name} is rejected whole",
        found=breach,
        todo="Nothing of it was applied, and nothing behind it; other tables go on. Replace the file by a right "
        "one, or change the rule.",
    )
