"""Scripts of deliveries whose rows pass column rules, for any table format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from lakeward.core.dimension import Dimension
from lakeward.core.ledger.selection import ObjectSelection
from lakeward.core.merge.facts import Capability
from lakeward.core.ports import Batch
from lakeward.core.shaping.cells import shape_row
from lakeward.core.shaping.recomputed_columns import RecomputedColumns
from lakeward.core.shaping.shape import Shape
from lakeward.core.shaping.shaped_source import ShapedSource, Shaper, TableRules
from lakeward.plugins.testing.player import Lake, Moment, Player
from lakeward.plugins.testing.scripted_source import ScriptedSource
from lakeward.plugins.testing.scripts import PACKED, Rows, Script

SECRETS = {"env:PEPPER": b"0123456789abcdef"}


@dataclass
class ShapedScript(ScriptedSource):
    """A script whose rows pass rules."""

    shaper: Shaper[Any] | None = None

    def _ruled(self) -> ShapedSource[Any]:
        assert self.shaper is not None
        return ShapedSource(ScriptedSource(self.script, self.frame), self.shaper)

    def read(self, dimension: Dimension, selection: ObjectSelection, epoch: int) -> Batch[Any]:
        """Return the items of a delivery as the rules make them."""
        return self._ruled().read(dimension, selection, epoch)

    def recomputed(self, dimension: Dimension, may_need: frozenset[Capability]) -> RecomputedColumns:
        """Return the stored row after the rules."""
        return self._ruled().recomputed(dimension, may_need)


def ruled_player(
    script: Script,
    form: Shape,
    lake: Lake,
    shaper_of: Callable[[TableRules], Shaper[Any]],
    rules: TableRules,
    expected: Sequence[Moment] | None = None,
) -> Player:
    """Return a player of a script on a table with the columns of its rules."""
    table = replace(script, dimension=replace(script.dimension, schema=form.schema, key=("h", "id")))
    player = Player(table, lake, expected=expected)
    player.source = ShapedScript(script, lake.frame, shaper=shaper_of(rules))
    return player


def apply_rules(form: Shape, rows: Rows) -> Rows:
    """Return the rows of a source after the rules."""
    return {key: (shape_row(cells, form, SECRETS).cells, position) for key, (cells, position) in rows.items()}


__all__ = ["PACKED", "SECRETS", "ShapedScript", "apply_rules", "ruled_player"]
