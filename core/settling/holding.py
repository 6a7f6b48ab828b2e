"""Events that turn out, once folded, to be none that can be applied: they are held, and their keys wait."""

from __future__ import annotations

from collections.abc import Sequence

from lakeward.core import mending
from lakeward.core.dimension import Dimension
from lakeward.core.errors import MendError
from lakeward.core.events import Position
from lakeward.core.memory import Reason, Reject
from lakeward.core.settling.folding import Outcome
from lakeward.core.settling.passing import Passing
from lakeward.core.settling.sorting import Arrived


def refused(passing: Passing, outcome: Outcome) -> list[Reject]:
    """Return the passing events to hold: the first that nobody can decide, else those that break histories."""
    positions = {position for folded in outcome.folds for position in folded.undecided}
    undecided = next((event for event in passing.passed if event.position in positions), None)
    return breaking(passing, outcome) if undecided is None else [Reject.of(undecided, Reason.KEY_SHIFT)]


def breaking(passing: Passing, outcome: Outcome) -> list[Reject]:
    """Return the first passing event of each key whose versions would break a rule.

    No event of a fold breaks one: the versions were altered in the table. A key that no event names, which a
    truncate or a full load has touched, has none.
    """
    found: dict[Position, Reject] = {}
    for key, detail in outcome.broken.items():
        event = next((event for event in passing.passed if key in event.keys), None)
        if event is not None:
            found.setdefault(event.position, Reject.of(event, Reason.HISTORY, detail))
    return list(found.values())


def hold(dimension: Dimension, arrived: Arrived, rejects: Sequence[Reject]) -> Arrived:
    """Quarantine events and hold their keys; a row that a person mended must be one that can be applied."""
    mended = {event.position for event in arrived.mended}
    for reject in rejects:
        if reject.position in mended:
            raise refuse_mended(dimension, reject)
    return arrived.with_held(rejects)


def refuse_mended(dimension: Dimension, reject: Reject) -> MendError:
    """Say why a row that a person mended cannot be applied."""
    object_, row = reject.position.object, reject.position.row
    if reject.reason is Reason.HISTORY:
        return mending.breaks_history(dimension, object_, row, reject.detail)
    return mending.undecided(dimension, object_, row)
