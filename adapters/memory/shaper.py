"""Rules carried out on events in plain Python: what Spark is held to."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from lakeward.adapters.memory.source import Frame, facts_of
from lakeward.core.dimension import Dimension
from lakeward.core.errors import RepairError
from lakeward.core.events import LOAD_SEQUENCE, UNSET, Cell, ChangeEvent, Key, Operation, key_of
from lakeward.core.merge.change_log import HOLDING, Reason, Reject
from lakeward.core.merge.facts import Capability
from lakeward.core.ports import Batch
from lakeward.core.schema import Schema
from lakeward.core.shaping.cells import Shaped as Made
from lakeward.core.shaping.cells import shaped
from lakeward.core.shaping.file_rules import Input
from lakeward.core.shaping.quality_rules import Action, RowRule, Unique, is_broken
from lakeward.core.shaping.recomputed_columns import RecomputedColumns
from lakeward.core.shaping.shape import Shape, key_steps, source_key
from lakeward.core.shaping.shaped_source import Shaped, TableRules
from lakeward.core.text.numbers import format_count

_BARE = (Operation.DELETE, Operation.TRUNCATE)


@dataclass(frozen=True, slots=True)
class MemoryShaper:
    """The rules of one table, in plain Python; `secrets` are the keys of hashes by name."""

    rules: TableRules
    secrets: Mapping[str, bytes] = field(default_factory=dict)

    def check(self) -> None:
        """Do nothing: what plain Python can tell is checked with the settings."""

    def shape(self, batch: Batch[Frame], dimension: Dimension, epoch: int) -> Shaped[Frame]:
        """Return the batch as the rules make it."""
        form = self.rules.shape(batch.facts.schema)
        again = self.rules.recomputed(form, dimension.key, batch.facts.needs | batch.facts.may_need)
        dimension = replace(dimension, schema=form.schema)
        row = _Rows(form, dimension, self.secrets)
        items = [row.event(item) if isinstance(item, ChangeEvent) else row.reject(item) for item in batch.frame]
        judged, warnings = _judged(items, self.rules, dimension)
        found = facts_of(dimension, judged, batch.facts.objects, batch.facts.believed)
        facts = replace(
            found,
            loaded=batch.facts.loaded,
            own_times=batch.facts.own_times,
            skipped=batch.facts.skipped,
            warnings=warnings,
            recomputed=again,
            cautions=batch.facts.cautions,
            others=batch.facts.others,
            databases=batch.facts.databases,
            header=batch.facts.header,
        )
        return Shaped(Batch(judged, facts, batch.close), tuple(_inputs(items, batch, form.schema)))

    def recomputed(self, dimension: Dimension, may_need: frozenset[Capability]) -> RecomputedColumns:
        """Return how the rules make columns of the row that stands, of the columns that are declared."""
        return self.rules.recomputed(self.rules.shape(self.rules.source), dimension.key, may_need)

    def repaired(self, frame: Frame, dimension: Dimension) -> Frame:
        """Return rows that a person mended, as the rules make them; raises MendError where one breaks a rule."""
        if self.rules.columns:
            form = self.rules.shape(self.rules.source)
            row = _Rows(form, replace(dimension, schema=form.schema), self.secrets)
            frame = [row.event(item) if isinstance(item, ChangeEvent) else item for item in frame]
        judged, _ = _judged(frame, self.rules, dimension)
        wrong = [item for item in judged if isinstance(item, Reject)]
        if wrong:
            raise RepairError(
                f"{dimension.name}: "
                f"{format_count(len(wrong), 'mended row still breaks', 'mended rows still break')} a rule",
                todo="Nothing was changed. Correct the cells, and take the file again.",
            )
        return frame


@dataclass(frozen=True, slots=True)
class _Rows:
    """The rules of a table at work on one row after the other."""

    form: Shape
    dimension: Dimension
    secrets: Mapping[str, bytes]

    def event(self, event: ChangeEvent) -> ChangeEvent | Reject:
        if event.operation is Operation.TRUNCATE:
            return event
        made = self.shaped(event)
        passed = key_steps(self.form, self.dimension.key)
        of_key = {item.name for step in self.form.steps if step.number in passed for item in step.made}
        if of_key & made.misfits.keys():
            return Reject(event.position, Reason.UNREADABLE, (), event.transaction, event.time)
        key = key_of(made.cells, self.dimension.key)
        if key is None:
            return Reject(event.position, Reason.NULL_KEY, (), event.transaction, event.time)
        old = None if event.old_key is None else self.key(event.old_key)
        if made.misfits:
            keys = (key,) if old is None else (old, key)
            return Reject(event.position, Reason.CAST, keys, event.transaction, event.time)
        return replace(event, cells=made.cells, key=key, old_key=old)

    def shaped(self, event: ChangeEvent) -> Made:
        """Return what the rules make of a row; what an insert did not send is NULL to them, and counted."""
        unset = {name for name in self.form.source.names if event.cells.get(name, UNSET) is UNSET}
        if event.operation not in (Operation.INSERT, Operation.READ) or event.old_key is not None:
            return shaped(event.cells, self.form, self.secrets)
        made = shaped({**event.cells, **dict.fromkeys(unset)}, self.form, self.secrets)
        cells = {
            name: UNSET if value is None and self.form.needs[name] & unset else value
            for name, value in made.cells.items()
        }
        return replace(made, cells=cells)

    def reject(self, reject: Reject) -> Reject:
        """A reject that holds its key, and whose key does not pass the rules, holds none: nobody can know it."""
        keys = [self.key(key) for key in reject.keys]
        whole = tuple(key for key in keys if key is not None)
        if reject.reason in HOLDING and len(whole) < len(keys):
            return replace(reject, reason=Reason.UNREADABLE, keys=())
        return replace(reject, keys=whole)

    def key(self, key: Key) -> Key | None:
        names = source_key(self.form, self.dimension.key)
        cells: dict[str, Cell] = dict.fromkeys(self.form.source.names)
        made = shaped({**cells, **dict(zip(names, key, strict=True))}, self.form, self.secrets)
        return key_of(made.cells, self.dimension.key)


def _judged(
    items: Sequence[ChangeEvent | Reject], rules: TableRules, dimension: Dimension
) -> tuple[Frame, Mapping[str, int]]:
    """Put the quality rules to each row; return the rows, and how many break a rule that only warns."""
    loads = Counter(
        (item.position.object, item.key) for item in items if isinstance(item, ChangeEvent) and item.is_load
    )
    warnings: Counter[str] = Counter()
    judged: list[ChangeEvent | Reject] = []
    row_rules = [rule for rule in rules.quality if isinstance(rule, RowRule)]
    for item in items:
        if isinstance(item, Reject) or item.operation in _BARE:
            judged.append(item)
            continue
        broken = [rule for rule in row_rules if _breaks(rule, item, loads, dimension.schema)]
        warnings.update(rule.label for rule in broken if rule.action is Action.WARN)
        is_refused = any(rule.action is Action.QUARANTINE for rule in broken)
        refused = Reject(item.position, Reason.QUALITY, item.keys, item.transaction, item.time)
        judged.append(refused if is_refused else item)
    return judged, dict(warnings)


def _breaks(rule: RowRule, event: ChangeEvent, loads: Mapping[tuple[int, Key], int], schema: Schema) -> bool:
    if isinstance(rule, Unique):
        return event.is_load and loads[event.position.object, event.key] > 1
    if any(event.cells.get(name, UNSET) is UNSET for name in rule.columns):
        return False
    return is_broken(rule, event.cells, schema)


def _inputs(items: Sequence[ChangeEvent | Reject], batch: Batch[Frame], schema: Schema) -> Sequence[Input]:
    found = []
    for known in batch.facts.objects:
        own = [item for item in items if item.position.object == known.object.order]
        valued = [item for item in own if isinstance(item, ChangeEvent) and item.operation not in _BARE]
        nulls = {name: sum(item.cells.get(name) is None for item in valued) for name in schema.names}
        is_load = known.is_load or any(item.position.sequence == LOAD_SEQUENCE for item in own)
        found.append(Input(name=known.object.name, is_load=is_load, rows=len(own), valued=len(valued), nulls=nulls))
    return found
