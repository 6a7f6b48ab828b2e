"""Apply column rules and quality rules to events in plain Python; the Spark shaper must give the same results."""

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
from lakeward.core.shaping.cells import ShapedRow, shape_row
from lakeward.core.shaping.file_rules import Input
from lakeward.core.shaping.quality_rules import Action, RowRule, Unique, is_broken
from lakeward.core.shaping.recomputed_columns import RecomputedColumns
from lakeward.core.shaping.shape import Shape, key_steps, source_key
from lakeward.core.shaping.shaped_source import ShapedBatch, TableRules
from lakeward.core.text.numbers import format_count

_WITHOUT_VALUES = (Operation.DELETE, Operation.TRUNCATE)


@dataclass(frozen=True, slots=True)
class MemoryShaper:
    """The rules of one table in plain Python; `secrets` are the keys of hashes by name."""

    rules: TableRules
    secrets: Mapping[str, bytes] = field(default_factory=dict)

    def check(self) -> None:
        """Do nothing: everything that needs no Spark is checked with the settings."""

    def shape(self, batch: Batch[Frame], dimension: Dimension, epoch: int) -> ShapedBatch[Frame]:
        """Return the batch after its rules."""
        form = self.rules.shape(batch.facts.schema)
        recomputed = self.rules.recomputed(form, dimension.key, batch.facts.needs | batch.facts.may_need)
        dimension = replace(dimension, schema=form.schema)
        row = _Rows(form, dimension, self.secrets)
        items = [row.event(item) if isinstance(item, ChangeEvent) else row.reject(item) for item in batch.frame]
        checked, warnings = _check_rows(items, self.rules, dimension)
        facts = facts_of(dimension, checked, batch.facts.objects, batch.facts.believed)
        shaped_facts = replace(
            facts,
            loaded=batch.facts.loaded,
            own_times=batch.facts.own_times,
            skipped=batch.facts.skipped,
            warnings=warnings,
            recomputed=recomputed,
            cautions=batch.facts.cautions,
            others=batch.facts.others,
            databases=batch.facts.databases,
            header=batch.facts.header,
        )
        return ShapedBatch(Batch(checked, shaped_facts, batch.close), tuple(_inputs(items, batch, form.schema)))

    def recomputed(self, dimension: Dimension, may_need: frozenset[Capability]) -> RecomputedColumns:
        """Return how the rules compute columns of stored rows again, from the declared columns."""
        return self.rules.recomputed(self.rules.shape(self.rules.source), dimension.key, may_need)

    def repaired(self, frame: Frame, dimension: Dimension) -> Frame:
        """Return repaired rows after the rules; raises RepairError if one breaks a rule."""
        if self.rules.columns:
            form = self.rules.shape(self.rules.source)
            row = _Rows(form, replace(dimension, schema=form.schema), self.secrets)
            frame = [row.event(item) if isinstance(item, ChangeEvent) else item for item in frame]
        checked, _ = _check_rows(frame, self.rules, dimension)
        wrong = [item for item in checked if isinstance(item, Reject)]
        if wrong:
            raise RepairError(
                f"{dimension.name}: "
                f"{format_count(len(wrong), 'repaired row still breaks', 'repaired rows still break')} a rule",
                todo="Nothing was changed. Correct the cells, and take the file again.",
            )
        return frame


@dataclass(frozen=True, slots=True)
class _Rows:
    """Applies the column rules of a table to single rows."""

    form: Shape
    dimension: Dimension
    secrets: Mapping[str, bytes]

    def event(self, event: ChangeEvent) -> ChangeEvent | Reject:
        if event.operation is Operation.TRUNCATE:
            return event
        shaped_row = self.shape_row(event)
        key_step_numbers = key_steps(self.form, self.dimension.key)
        key_columns = {
            item.name for step in self.form.steps if step.number in key_step_numbers for item in step.results
        }
        if key_columns & shaped_row.misfits.keys():
            return Reject(event.position, Reason.UNREADABLE, (), event.transaction, event.time)
        key = key_of(shaped_row.cells, self.dimension.key)
        if key is None:
            return Reject(event.position, Reason.NULL_KEY, (), event.transaction, event.time)
        old_key = None if event.old_key is None else self.key(event.old_key)
        if shaped_row.misfits:
            keys = (key,) if old_key is None else (old_key, key)
            return Reject(event.position, Reason.CAST, keys, event.transaction, event.time)
        return replace(event, cells=shaped_row.cells, key=key, old_key=old_key)

    def shape_row(self, event: ChangeEvent) -> ShapedRow:
        """Return the row after its rules.

        Cells that an insert did not send are NULL to the rules, and are counted.
        """
        unset = {name for name in self.form.source.names if event.cells.get(name, UNSET) is UNSET}
        if event.operation not in (Operation.INSERT, Operation.READ) or event.old_key is not None:
            return shape_row(event.cells, self.form, self.secrets)
        shaped_row = shape_row({**event.cells, **dict.fromkeys(unset)}, self.form, self.secrets)
        cells = {
            name: UNSET if value is None and self.form.needs[name] & unset else value
            for name, value in shaped_row.cells.items()
        }
        return replace(shaped_row, cells=cells)

    def reject(self, reject: Reject) -> Reject:
        """Return a reject with its key after the rules. If the key does not pass them, the reject holds no key."""
        keys = [self.key(key) for key in reject.keys]
        shaped_keys = tuple(key for key in keys if key is not None)
        if reject.reason in HOLDING and len(shaped_keys) < len(keys):
            return replace(reject, reason=Reason.UNREADABLE, keys=())
        return replace(reject, keys=shaped_keys)

    def key(self, key: Key) -> Key | None:
        names = source_key(self.form, self.dimension.key)
        cells: dict[str, Cell] = dict.fromkeys(self.form.source.names)
        shaped_key = shape_row({**cells, **dict(zip(names, key, strict=True))}, self.form, self.secrets)
        return key_of(shaped_key.cells, self.dimension.key)


def _check_rows(
    items: Sequence[ChangeEvent | Reject], rules: TableRules, dimension: Dimension
) -> tuple[Frame, Mapping[str, int]]:
    """Check each row by the quality rules. Return the rows, and how many broke each rule that only warns."""
    loads = Counter(
        (item.position.object, item.key) for item in items if isinstance(item, ChangeEvent) and item.is_load
    )
    warnings: Counter[str] = Counter()
    checked: list[ChangeEvent | Reject] = []
    row_rules = [rule for rule in rules.quality if isinstance(rule, RowRule)]
    for item in items:
        if isinstance(item, Reject) or item.operation in _WITHOUT_VALUES:
            checked.append(item)
            continue
        broken = [rule for rule in row_rules if _breaks(rule, item, loads, dimension.schema)]
        warnings.update(rule.label for rule in broken if rule.action is Action.WARN)
        is_refused = any(rule.action is Action.QUARANTINE for rule in broken)
        reject = Reject(item.position, Reason.QUALITY, item.keys, item.transaction, item.time)
        checked.append(reject if is_refused else item)
    return checked, dict(warnings)


def _breaks(rule: RowRule, event: ChangeEvent, loads: Mapping[tuple[int, Key], int], schema: Schema) -> bool:
    if isinstance(rule, Unique):
        return event.is_load and loads[event.position.object, event.key] > 1
    if any(event.cells.get(name, UNSET) is UNSET for name in rule.columns):
        return False
    return is_broken(rule, event.cells, schema)


def _inputs(items: Sequence[ChangeEvent | Reject], batch: Batch[Frame], schema: Schema) -> Sequence[Input]:
    inputs = []
    for facts in batch.facts.objects:
        object_items = [item for item in items if item.position.object == facts.object.order]
        events = [
            item for item in object_items if isinstance(item, ChangeEvent) and item.operation not in _WITHOUT_VALUES
        ]
        nulls = {name: sum(item.cells.get(name) is None for item in events) for name in schema.names}
        is_load = facts.is_load or any(item.position.sequence == LOAD_SEQUENCE for item in object_items)
        inputs.append(
            Input(name=facts.object.name, is_load=is_load, rows=len(object_items), valued=len(events), nulls=nulls)
        )
    return inputs
