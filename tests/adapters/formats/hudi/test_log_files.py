"""Which logs of a Hudi table are due, as the metadata of its writes tells."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import fastavro
import pytest
from hudi_files import commit_metadata

from lakeward.adapters.formats.hudi.metadata.log_files import Group, with_logs
from lakeward.adapters.formats.hudi.metadata.timeline import Instant, Timeline
from lakeward.adapters.formats.hudi.operations.maintenance import due_of
from lakeward.adapters.formats.shared.storage.folder import DiskFolder
from lakeward.core.ports import MaintenancePolicy


def stat(file: str, *, log: bool = False, rows: int = 0, deletes: int = 0) -> Mapping[str, Any]:
    path = f".{file}.log.1_0" if log else f"{file}.parquet"
    return {"fileId": file, "path": path, "numWrites": rows, "numDeletes": deletes, "fileSizeInBytes": 10}


def write(
    at: int, *stats: Mapping[str, Any], completed: int | None = None, replaces: Sequence[str] = ()
) -> Instant:
    content = commit_metadata(partitionToWriteStats={"p": [*stats]}, partitionToReplaceFileIds={"p": [*replaces]})
    return Instant(f"{at if completed is None else completed:04}", f"{at:04}", content)


def test_logs_behind_the_newest_rows_count_and_those_before_do_not() -> None:
    first = write(1, stat("a", rows=10))
    old, compaction = write(2, stat("a", log=True, rows=9)), write(3, stat("a", rows=12))
    new = write(4, stat("a", log=True, rows=2, deletes=1))
    found = Group(partition="p", name="a", rows=12, logs=1, changes=3, size=20)
    assert with_logs([new, compaction, old, first]) == [found]
    assert with_logs([compaction, old, first]) == []


def test_a_log_that_completed_behind_the_beginning_of_a_compaction_is_not_in_it() -> None:
    late = write(2, stat("a", log=True, rows=1), completed=5)
    (found,) = with_logs([write(4, stat("a", rows=3), completed=6), late, write(1, stat("a", rows=3))])
    assert found.logs == 1


def test_a_group_that_was_replaced_is_gone() -> None:
    before = [write(1, stat("a", rows=10)), write(2, stat("a", log=True, rows=1))]
    assert with_logs([write(3, stat("b", rows=1), replaces=["a"]), *before]) == []


@pytest.mark.parametrize(
    ("policy", "is_due"),
    [
        (MaintenancePolicy(deleted=0.3), True),
        (MaintenancePolicy(deleted=0.31), False),
        (MaintenancePolicy(small=3), True),
        (MaintenancePolicy(small=4), False),
        (MaintenancePolicy(), False),
    ],
)
def test_all_logs_are_due_once_one_group_or_their_number_is(policy: MaintenancePolicy, is_due: bool) -> None:
    groups = with_logs(
        [
            write(1, stat("a", rows=10), stat("b", rows=100)),
            write(2, stat("a", log=True, rows=3), stat("b", log=True, deletes=1)),
            write(3, stat("b", log=True, rows=1)),
        ]
    )
    assert [group.files for group in groups] == [2, 3]
    assert due_of(groups, policy) == (groups if is_due else ())


def test_a_group_of_logs_alone_is_all_changes() -> None:
    (found,) = with_logs([write(1, stat("a", log=True, rows=5))])
    assert (found.share, found.files) == (1.0, 1)


def test_a_table_is_whole_from_where_its_cleanings_left_it(tmp_path: Path) -> None:
    timeline, folder = Timeline(DiskFolder(tmp_path)), tmp_path / ".hoodie" / "timeline"
    folder.mkdir(parents=True)
    assert timeline.readable_from() == ""
    instant = {"type": "record", "name": "i", "fields": [{"name": "timestamp", "type": "string"}]}
    fields = [
        {"name": "earliestInstantToRetain", "type": ["null", instant]},
        {"name": "lastCompletedCommitTimestamp", "type": "string"},
    ]
    for at, earliest in ((3, {"timestamp": "0002"}), (7, None), (9, {"timestamp": "0004"})):
        with (folder / f"{at:017}.clean.requested").open("wb") as file:
            plan = {"earliestInstantToRetain": earliest, "lastCompletedCommitTimestamp": f"{at - 1:04}"}
            fastavro.writer(file, {"type": "record", "name": "plan", "fields": fields}, [plan])
    assert timeline.readable_from() == "0006"
