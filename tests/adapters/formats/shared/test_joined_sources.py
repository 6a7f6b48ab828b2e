"""The state of a source of a joined table: its commits, and which of its changes it still remembers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from lakeward.adapters.formats.shared.change_log.batch_record import BatchRecord
from lakeward.adapters.formats.shared.joined.joined_sources import (
    newest_forgotten,
    newest_replacement,
    state_of,
)
from lakeward.core.dimension import Lateness, Ordered, Within
from lakeward.core.errors import TableError
from lakeward.core.events import Position, SourceOrder
from lakeward.core.joined.plan import SourceCommit
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.merge.change_log import Record
from lakeward.core.merge.facts import ObjectFacts
from lakeward.core.ports import TableState, Version
from lakeward.core.progress import Progress

DAY = Within(86_400_000_000)


def record(batch: int, *, epoch: int = 1, truncates: int = 0, ordered: bool = False) -> BatchRecord:
    """Return the record of a batch with one file, whose events are of sequence 10 × batch to 10 × batch + 5."""
    least, greatest = (Position(epoch, 10 * batch + more, batch, 0) for more in (0, 5))
    held = Record(batch, frozenset({batch}), least, greatest, truncates=(least,) * truncates)
    facts = (ObjectFacts(SourceObject(f"{batch}.csv", batch, 1, 1), 1, least, greatest),)
    return BatchRecord(facts, held, {}, epoch=epoch, ordered=ordered)


def change_log(upto: int, lateness: Lateness = DAY, **of: BatchRecord) -> Any:
    ordered = isinstance(lateness, Ordered)
    found = {batch: of.get(f"b{batch}", record(batch, ordered=ordered)) for batch in range(1, upto + 1)}
    return SimpleNamespace(
        batches=SimpleNamespace(records=found, objects=lambda _: None),
        dimension=SimpleNamespace(name="shop.item", lateness=lateness),
    )


def test_a_truncate_a_complete_load_and_an_older_snapshot_replace_rows() -> None:
    assert newest_replacement(change_log(5)) == 0
    assert newest_replacement(change_log(5, b2=record(2, truncates=1))) == 2
    later = {f"b{batch}": record(batch, epoch=2) for batch in (3, 4, 5)}
    assert newest_replacement(change_log(5, **later)) == 3
    assert newest_replacement(change_log(5, b4=replace(record(4), spliced=True))) == 4


ABOVE_ALL = SourceOrder(1, 10**6)
UNORDERED = {f"b{batch}": record(batch) for batch in range(1, 21)}
WITH_RELEASED = change_log(32, b31=replace(record(31), record=None))


@pytest.mark.parametrize(
    ("found", "mark", "right"),
    [
        (change_log(31), ABOVE_ALL, 0),
        (change_log(32), None, 0),
        (change_log(40), ABOVE_ALL, 32),
        (change_log(40), SourceOrder(1, 103), 10),
        (change_log(40, Ordered(1000)), None, 0),
        (change_log(40, Ordered(10)), None, 30),
        (change_log(40, Ordered(3)), None, 32),
        (change_log(31, Ordered(3)), None, 0),
        # Deletes from before the table was ordered may lie below its low watermark.
        (change_log(40, Ordered(1000), **UNORDERED), None, 20),
        (change_log(31, Ordered(1000), **UNORDERED), None, 0),
        # The positions of released events are not recorded, so trimming may pass a batch without a record.
        (WITH_RELEASED, None, 31),
        (WITH_RELEASED, ABOVE_ALL, 32),
        (WITH_RELEASED, SourceOrder(1, 105), 31),
    ],
)
def test_a_trim_forgets_deletes(found: Any, mark: SourceOrder | None, right: int) -> None:
    progress = Progress(batch=len(found.batches.records), low_watermark=mark)
    assert newest_forgotten(found, progress) == right


def table(*batches: tuple[str, int], gone: Sequence[int] = (), upto: int = 9) -> Any:
    """Return a table with commits, newest first; the files of some batches are gone."""
    commits: Sequence[Version] = [Version(name=n, progress=Progress(batch=batch)) for n, batch in batches]
    shown = {batch: name for name, batch in batches if batch not in gone}
    lineage = SimpleNamespace(commits=lambda: commits, commit_showing=shown.get)
    return SimpleNamespace(
        state=lambda: TableState(Progress(batch=upto), None),
        lineage=lambda: lineage,
        side_tables=SimpleNamespace(change_log=change_log(upto)),
    )


@pytest.mark.parametrize(
    ("batches", "gone", "now", "passed"),
    [
        ("c9 b8 a7", [], "c9", True),
        ("c9 b8 a7", [8], "c9", False),  # the files of the commit that was passed are gone
        ("d9 e8 a7", [], "d9", False),  # rolled back, and another batch 8 since
        ("c9", [], "c9", False),  # expired
        ("", [], "9", False),  # even the last commit is forgotten
    ],
)
def test_a_source_has_passed_each_of_its_commits(batches: str, gone: list[int], now: str, passed: bool) -> None:
    found = state_of(table(*[(one[0], int(one[1])) for one in batches.split()], gone=gone), SourceCommit(8, "b"))
    assert found is not None
    assert (found.now, found.has_passed, found.remembers) == (SourceCommit(9, now.rstrip("9")), passed, 0)


def test_a_source_without_a_commit_has_no_state() -> None:
    assert state_of(table(upto=0)) is None
    gone = table(upto=9)
    gone.lineage = lambda: None
    assert state_of(gone) is None


def test_a_source_that_another_run_advances_while_it_is_read_was_not_rolled_back() -> None:
    """The first state is of batch 5; the change log is ahead of it and says that the table was rolled back."""
    found, batches, batches_read = table(("c", 9), upto=9), [5], list[int]()

    def state() -> TableState:
        batches_read.append(batches.pop() if batches else 9)
        return TableState(Progress(batch=batches_read[-1]), None)

    def objects(_: Progress) -> None:
        if batches_read == [5]:
            raise TableError("shop.item was rolled back to batch 5")

    found.state, found.side_tables.change_log.batches.objects = state, objects
    read = state_of(found)
    assert read is not None
    assert (read.now, batches_read) == (SourceCommit(9, "c"), [5, 9, 9])
