"""The laws of soft deletes: a deleted row keeps its last values and is not counted as a row."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from lakeward.core.dimension import DELETED, ORDERED, Deletes, Lateness, Unbounded, Within
from lakeward.core.events import Key
from lakeward.core.merge.facts import PARTIAL, Capability
from lakeward.plugins.testing.bench import Law, Trial
from lakeward.plugins.testing.player import CRASHES, UNCOMMITTED
from lakeward.plugins.testing.scripts import Rows, Script, pack_late, pack_reloaded

_LATENESS: Final[Mapping[str, Lateness]] = {"ordered": ORDERED, "within": Within(3), "unbounded": Unbounded()}


def a_deleted_row_keeps_its_last_values(trial: Trial) -> None:
    """Convergence, lateness, crash: with soft deletes the table has the last values of each deleted row.

    An `ordered` table is tried without truncates: one would overtake older events, whose values were lost then.
    """
    lateness: Lateness = trial.case
    is_ordered = lateness == ORDERED
    in_part = trial.can(*PARTIAL) and (trial.is_packed or trial.random.random() < 0.5)
    truncates = trial.can(Capability.TRUNCATE) and (trial.is_packed or trial.random.random() < 0.5)
    truncates, bad = truncates and not is_ordered, 0.0 if in_part and is_ordered else 0.02
    script = _softly(
        pack_late(trial.random, trial.histories, lateness, bad=bad, in_part=in_part, truncates=truncates)
    )
    player = trial.play(script, trial.ends(UNCOMMITTED if in_part else CRASHES))
    moment = player.moments[-1]
    current = current_rows(moment.rows)
    assert moment.progress.current == len(current), "the number of current rows is not the one in the progress"
    assert not trial.is_packed or len(current) < len(moment.rows), "the feed deletes no row: it shows nothing"


def a_row_missing_from_a_load_is_deleted_and_keeps_its_values(trial: Trial) -> None:
    """Reload, with soft deletes: current rows are those of the new epoch. All others are kept as deleted."""
    lateness = trial.random.choice((ORDERED, Within(3), Unbounded()))
    truncates = trial.can(Capability.TRUNCATE) and lateness != ORDERED and trial.random.random() < 0.5
    first = pack_late(trial.random, trial.histories, lateness, bad=0.02, truncates=truncates)
    script = _softly(pack_reloaded(trial.random, first, trial.histories, bad=0.02, fixed=0.6))
    moments = trial.play_alike(script, trial.ends()).moments
    assert script.reloaded_with is not None
    before, after = moments[script.reloaded_with - 1].rows, moments[-1].rows
    assert current_rows(after) == current_rows(script.truth), "current rows are not those of the new epoch"
    assert before.keys() <= after.keys(), f"rows are lost: {sorted(before.keys() - after.keys())}"


def current_rows(rows: Rows) -> Mapping[Key, object]:
    """Return the rows that are not deleted."""
    return {key: row for key, row in rows.items() if not row[0][DELETED]}


def _softly(script: Script) -> Script:
    return replace(script, dimension=replace(script.dimension, deletes=Deletes.SOFT))


LAWS: Final = (
    Law.of(a_deleted_row_keeps_its_last_values, Capability.SOFT_DELETE.value, cases=_LATENESS, few=3, share=0.1),
    Law.of(
        a_row_missing_from_a_load_is_deleted_and_keeps_its_values,
        Capability.SOFT_DELETE.value,
        Capability.RELOAD.value,
        few=2,
        share=0.1,
        weight=0.25,
    ),
)
"""The laws of soft deletes."""
