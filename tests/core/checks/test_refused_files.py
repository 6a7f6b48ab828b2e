"""A file of which every row is refused for one reason stops its table until an operator acknowledges it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from memory_jobs import INSERT, NAME, event, item, memory_job, progress_of

from lakeward.adapters.memory import MemorySource
from lakeward.core.dimension import Tolerance
from lakeward.core.errors import AlarmRaised
from lakeward.core.events import ChangeEvent
from lakeward.core.merge.change_log import Reason, Reject
from lakeward.core.operations.acknowledge import acknowledge
from lakeward.core.pipeline.apply import apply_changes
from lakeward.core.pipeline.job import Job


def job(files: Mapping[int, Sequence[Reason | None]], tolerance: Tolerance = Tolerance()) -> Job[Any]:  # noqa: B008
    """Return the job of files by order: for each row the reason why it is refused, or None."""
    source = MemorySource()
    for order, rows in files.items():
        put(source, order, rows)
    return memory_job(item(tolerance=tolerance), source)


def put(source: MemorySource, order: int, rows: Sequence[Reason | None]) -> None:
    items: list[ChangeEvent | Reject] = []
    for row, reason in enumerate(rows, 1):
        read = event(INSERT, order, order * 100 + row, row=row, a=1)
        refused = reason and Reject(read.position, reason, read.keys, detail='"1,5" is not an int (column a)')
        items.append(refused or read)
    source.put(NAME, order, items)


C, N, Q = Reason.CAST, Reason.NULL_KEY, Reason.QUALITY


@pytest.mark.parametrize(
    "files",
    [
        {1: [C, C]},
        {1: [C]},  # no row of the table was applied yet
        {1: [N, N, N]},
        {1: [None], 2: [C, C]},
        {1: [C], 2: [C]},
    ],
)
def test_a_file_of_which_every_row_is_refused_for_one_reason_stops_the_table(
    files: Mapping[int, Sequence[Reason | None]],
) -> None:
    found = job(files)
    with pytest.raises(AlarmRaised) as stopped:
        apply_changes(found)
    assert stopped.value.code == "QUARANTINE-001"
    assert not progress_of(found).batch
    acknowledge(found, "QUARANTINE-001", by="me", reason=None, at=1)
    refused = sum(reason is not None for rows in files.values() for reason in rows)
    assert apply_changes(found).quarantined == refused


@pytest.mark.parametrize(
    ("files", "quarantined"),
    [({1: [None, C]}, 1), ({1: [C, N]}, 2), ({1: [Q, Q]}, 2), ({1: [None], 2: [C]}, 1), ({1: [None], 2: []}, 0)],
)
def test_refused_rows_among_others_go_into_quarantine(
    files: Mapping[int, Sequence[Reason | None]], quarantined: int
) -> None:
    assert apply_changes(job(files)).quarantined == quarantined


def test_one_row_in_a_batch_of_its_own_goes_into_quarantine_once_a_row_was_applied() -> None:
    found = job({1: [None]})
    apply_changes(found)
    assert isinstance(found.source, MemorySource)
    put(found.source, 2, [C])
    assert apply_changes(found).quarantined == 1
    put(found.source, 3, [C, C])
    with pytest.raises(AlarmRaised, match="all 2 rows of 00000003 are refused for one reason: cast") as stopped:
        apply_changes(found)
    assert stopped.value.found == 'row 1: "1,5" is not an int (column a)'


def test_a_share_of_all_rows_turns_the_check_off() -> None:
    assert apply_changes(job({1: [C, C]}, Tolerance(max_share=1.0))).quarantined == 2
