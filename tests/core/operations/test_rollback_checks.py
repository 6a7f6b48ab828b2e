"""What a rollback refuses before anything is changed, and which decisions an operator must make again."""

from __future__ import annotations

from dataclasses import replace

import pytest
from memory_jobs import ID, INSERT, NAME, TableFeed, event, item, progress_of

from lakeward.adapters.memory import MemoryLedger, MemorySource
from lakeward.core.errors import ConfigError, SourceError
from lakeward.core.ledger.objects import ObjectState
from lakeward.core.ledger.writer import LedgerWriter
from lakeward.core.operations.reload import plan_reload as ask_for_a_load
from lakeward.core.operations.reload import record_decision, withdraw
from lakeward.core.operations.rollback import preview_rollback, roll_back, versions
from lakeward.core.operations.truncate import truncate_at
from lakeward.core.pipeline.apply import apply_changes
from lakeward.core.pipeline.job import Job
from lakeward.core.ports import Acknowledgement


@pytest.fixture
def job() -> Job[object]:
    feed = TableFeed(item(ID), ledger_writer=LedgerWriter(ledger=MemoryLedger(), now=lambda: 0))
    for place in (1, 2, 3):
        feed.deliver(place, event(INSERT, place, place, time=place))
    return feed.job


def source_of(job: Job[object]) -> MemorySource:
    assert isinstance(job.source, MemorySource)
    return job.source


def states(job: Job[object]) -> list[tuple[str, ObjectState]]:
    assert job.ledger_writer is not None
    return [(record.object.name, record.state) for record in job.ledger_writer.ledger.objects(str(NAME))]


def test_a_rollback_restores_the_ledger_and_the_next_run_applies_what_follows(job: Job[object]) -> None:
    assert [version.name for version in versions(job)] == ["2", "1"]
    preview = preview_rollback(job, "1")
    assert ([found.object.name for found in preview.objects], preview.batches) == (["00000002", "00000003"], 2)
    assert roll_back(job, preview).progress.batch == 1
    assert states(job) == [("00000001", ObjectState.APPLIED)]
    assert apply_changes(job).applied == 2
    assert progress_of(job).rows == 3


def test_a_format_without_rollback_refuses_it(job: Job[object]) -> None:
    without = replace(job, opened=replace(job.opened, versions=None))
    with pytest.raises(ConfigError, match="does not declare `rollback`"):
        versions(without)


def test_an_unknown_commit_is_refused_with_the_known_ones(job: Job[object]) -> None:
    with pytest.raises(ConfigError, match="there are 2, 1"):
        preview_rollback(job, "7")


def test_missing_objects_are_named_before_anything_is_changed(job: Job[object]) -> None:
    listed = source_of(job).tables[NAME]
    gone = listed.pop(1)
    with pytest.raises(SourceError, match="found no 00000002"):
        preview_rollback(job, "1")
    assert preview_rollback(job, "2").batches == 1
    listed.append(gone)
    assert preview_rollback(job, "1").batches == 2


def test_a_rollback_does_not_forget_a_reload_request(job: Job[object]) -> None:
    asked = ask_for_a_load(job, by="ann", reason=None, at=1, first=None)
    record_decision(job, asked.request)
    with pytest.raises(ConfigError, match="a reload was asked for after 2"):
        preview_rollback(job, "2")
    withdraw(job, by="ann", reason=None, at=2)
    assert [type(word).__name__ for word in preview_rollback(job, "2").decisions] == [
        "ReloadRequest",
        "ReloadRequest",
    ]


def test_a_rollback_preview_has_the_decisions_of_operators(job: Job[object]) -> None:
    truncate_at(job, "now", by="ann", reason=None, at=1)
    preview = preview_rollback(job, "2")
    assert (preview.batches, preview.by_hand) == (2, 1)
    assert [word.code for word in preview.decisions if isinstance(word, Acknowledgement)] == ["LEDGER-005"]
