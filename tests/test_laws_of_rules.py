"""Rules give equal results on a full load, on changes and on replays, in any delivery."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lakeward.adapters.memory.shaper import MemoryShaper
from lakeward.core.dimension import Dimension
from lakeward.core.errors import AlarmRaised
from lakeward.core.events import ChangeEvent, Operation
from lakeward.core.ledger.selection import ObjectSelection
from lakeward.core.merge.facts import ObjectFacts
from lakeward.core.merge.fold import apply
from lakeward.core.ports import Batch
from lakeward.core.shaping.cells import shape_row
from lakeward.core.shaping.column_rules import TEXT, Cast, Default, Hash, Rename
from lakeward.core.shaping.file_rules import Inputs, RowCount
from lakeward.core.shaping.quality_rules import Action, Range
from lakeward.core.shaping.reshaping_rules import Concat, Constant, Drop
from lakeward.core.shaping.shape import shape
from lakeward.core.shaping.shaped_source import ShapedSource, TableRules
from lakeward.plugins.testing.player import MemoryLake, Player
from lakeward.plugins.testing.scripted_source import ScriptedSource
from lakeward.plugins.testing.scripts import NAME, PACKED, Rows, Script, pack

COLUMNS = (
    Rename(column="id", to="number"),
    Hash(column="number", key="env:PEPPER"),
    Cast(column="a", type=TEXT, to="word"),
    Default(column="b", value="7"),
    Concat(columns=("word", "b"), to="both", separator="-", nulls="skip"),
    Constant(to="site", value="eu"),
    Drop(columns=("b",)),
)
SECRETS = {"env:PEPPER": b"0123456789abcdef"}
LIMIT = Range(column="a", most="5")
WARNING = Range(column="a", least="2", action=Action.WARN)
FORM = shape(COLUMNS, PACKED)
TABLE = Dimension(name=NAME, schema=FORM.schema, key=("h", "number"))


@dataclass
class ShapedScript(ScriptedSource):
    """A script whose rows pass rules."""

    rules: TableRules = field(default_factory=TableRules)

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Any]:
        inner = ScriptedSource(self.script, self.frame)
        return ShapedSource(inner, MemoryShaper(self.rules, SECRETS)).read(dimension, selection, epoch)


def play_script(script: Script, rules: TableRules) -> Player:
    table = replace(script, dimension=replace(TABLE, lateness=script.dimension.lateness))
    player = Player(table, MemoryLake())
    player.source = ShapedScript(script, player.lake.frame, rules=rules)
    return player.play()


def apply_rules(cells: Mapping[str, Any]) -> Mapping[str, Any]:
    return shape_row(cells, FORM, SECRETS).cells


def expected(rows: Rows) -> Rows:
    found = [(apply_rules(cells), position) for cells, position in rows.values()]
    return {(cells["h"], cells["number"]): (cells, position) for cells, position in found}


SEEDS = st.integers(0, 2**32)
thorough = settings(max_examples=75, deadline=None)


@thorough
@given(seed=SEEDS)
def test_rules_give_the_same_on_a_load_on_changes_and_on_replays(seed: int) -> None:
    """The script has loads and changes in random batches, some of them again, and some bad rows."""
    random = Random(seed)
    script = pack(random, 4, bad=random.choice([0.0, 0.05]))
    player = play_script(script, TableRules(columns=COLUMNS, source=PACKED))
    assert player.moments[-1].rows == expected(script.truth)
    assert not player.moments[-1].quarantine


@thorough
@given(seed=SEEDS)
def test_rows_that_break_a_rule_are_held_and_discarded_without_effect_on_others(seed: int) -> None:
    script = pack(Random(seed), 4)
    rules = TableRules(columns=COLUMNS, quality=(LIMIT, WARNING), source=PACKED)
    player = play_script(script, rules)
    kept = [event for event in script.events if not _breaks(event)]
    folded = apply(script.dimension, {}, kept).rows
    truth = {key: (dict(row.cells), row.position) for key, row in folded.items() if not row.deleted}
    assert player.moments[-1].rows == expected(truth)


def _breaks(event: ChangeEvent) -> bool:
    value = event.cells.get("a")
    return event.operation is not Operation.DELETE and isinstance(value, int) and value > 5


# Inputs.


def test_an_input_that_breaks_a_rule_is_rejected_and_inputs_before_it_are_applied() -> None:
    script = pack(Random(3), 3)
    source = ScriptedSource(script, MemoryLake().frame)
    source.arrived = len(script.deliveries)
    number = next(n for n, items in enumerate(script.deliveries) if len({i.position.object for i in items}) > 2)
    selection = ObjectSelection(source._objects(number))
    read = source.read(script.dimension, selection, 1)
    rows: dict[str, int] = {}
    for found in read.facts.objects:
        assert isinstance(found, ObjectFacts)
        rows[found.object.name] = sum(item.position.object == found.object.order for item in read.frame)
    most = max(rows.values())
    bad = next(place for place, item in enumerate(selection.objects) if rows[item.name] == most)
    rules = TableRules(quality=(RowCount(most=most - 1, inputs=Inputs.ALL),), source=PACKED)
    shaped_source = ShapedSource(source, MemoryShaper(rules))
    rest = replace(selection, objects=selection.objects[bad:])
    with pytest.raises(AlarmRaised, match=f"{selection.objects[bad].name} is rejected whole") as alarm:
        shaped_source.read(script.dimension, rest, 1)
    assert alarm.value.code == "QUALITY-001"
    assert f"it has {most} rows" in str(alarm.value.found)
    assert [item.name for item in selection.objects[:bad]] == [
        found.object.name
        for found in (shaped_source.read(script.dimension, selection, 1).facts.objects if bad else ())
    ]
