"""Check for files of which every row is refused for one reason: the settings are wrong, or the file is."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from lakeward.core.dimension import TableName
from lakeward.core.errors import AlarmRaised
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.merge.facts import Refusal
from lakeward.core.plan import MergePlan
from lakeward.core.progress import Progress
from lakeward.core.text.numbers import format_count

REFUSED_ALARM: Final = "QUARANTINE-001"
"""The code of the alarm for files of which every row is refused."""


def refuse_refused_files(planned: MergePlan, progress: Progress, acked: Collection[str]) -> None:
    """Raise QUARANTINE-001 where every row of a file is refused for one reason.

    `acked` are the versions of files that an operator let into quarantine. A file of a single row counts only where
    no row of the batch can be read, and where it is not the only row or no row of the table was applied yet: in a
    feed of many small files such a row is bad data. `max_share = 1` turns the check off.
    """
    if planned.dimension.tolerance.max_share >= 1 or planned.releases:
        return
    facts, copies = planned.facts, planned.copies
    refused_files = [(item.object, item.refusal) for item in facts.objects if item.refusal is not None]
    is_alone = not facts.operations and (
        sum(why.rows for _, why in refused_files) > 1 or not progress.totals.applied
    )
    alarming = [
        (item, why)
        for item, why in refused_files
        if (is_alone or why.rows > 1) and item.order not in copies and item.version not in acked
    ]
    if alarming:
        raise _alarm(planned.dimension.name, alarming)


def _alarm(name: TableName, refused: Sequence[tuple[SourceObject, Refusal]]) -> AlarmRaised:
    """Return the alarm for these files."""
    (first, why), more = refused[0], len(refused) - 1
    which = f"all {why.rows:,} rows of {first.name} are" if why.rows > 1 else f"the only row of {first.name} is"
    also = format_count(more, "more file of the batch has", "more files of the batch have")
    others = f"; {also} no row that can be read" if more else ""
    return AlarmRaised(
        "QUARANTINE-001",
        f"{name}: {which} refused for one reason: {why.reason.value}",
        found=f"row {why.row}: {why.detail}{others}",
        todo="Nothing of this batch was applied; other tables go on. Is a column's type, its format, the key, or a "
        "setting under [source] declared wrongly? Correct it, or replace the file, and run again. Where the file "
        f"really is so: `lakeward ack {name} {REFUSED_ALARM}`; its rows then go into quarantine.",
        about=[item.version for item, _ in refused],
    )
