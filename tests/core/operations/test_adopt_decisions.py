"""Decisions about a table of another job: why it cannot be adopted, and where it continues."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest
from memory_jobs import NAME, columns

from lakeward.adapters.memory import MemoryLedger, MemorySource, MemoryTarget
from lakeward.core.checks.batch_checks import refuse_other_options
from lakeward.core.dimension import Dimension, Match
from lakeward.core.errors import ConfigError, SchemaConflict, TableError
from lakeward.core.history.options import History
from lakeward.core.ledger.objects import ObjectState
from lakeward.core.ledger.writer import LedgerWriter
from lakeward.core.operations.adopt import adopt, request_adoption
from lakeward.core.pipeline.job import Job
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Commit, ExternalTable
from lakeward.core.progress import Progress

SCHEMA = columns(id="int", note="string")
DIMENSION = Dimension(name=NAME, schema=SCHEMA, key=("id",))


@dataclass
class ExternalTableReader:
    """A table of another job; records what was done to it."""

    found: ExternalTable = field(default_factory=lambda: ExternalTable(state="7", schema=SCHEMA, rows=3))
    adopted: list[tuple[MergePlan, Progress]] = field(default_factory=list)

    def inspect(self) -> ExternalTable:
        return self.found

    def adopt(self, external: ExternalTable, plan: MergePlan, progress: Progress) -> Commit:
        assert external == self.found
        self.adopted.append((plan, progress))
        return Commit("8", 0, 0)


def job(theirs: ExternalTableReader | None) -> Job[object]:
    source = MemorySource()
    for place in (1, 2, 3):
        source.put(NAME, place, [])
    opened = replace(MemoryTarget().open(DIMENSION), adoption=theirs)
    ledger_writer = LedgerWriter(ledger=MemoryLedger(), now=lambda: 0)
    return Job(dimension=DIMENSION, source=source, opened=opened, ledger_writer=ledger_writer)


def test_an_adopted_table_continues_behind_the_last_applied_object() -> None:
    theirs = ExternalTableReader()
    made = job(theirs)
    asked = request_adoption(made, "00000002")
    assert [item.name for item in asked.applied] == ["00000001", "00000002"]
    assert [item.name for item in asked.remaining] == ["00000003"]
    assert not theirs.adopted
    adopt(made, asked)
    ((plan, progress),) = theirs.adopted
    assert (progress.batch, progress.rows, progress.object, progress.key) == (1, 3, "00000002", ("id",))
    assert [found.object.name for found in plan.facts.objects] == ["00000001", "00000002"]
    assert made.ledger_writer is not None
    states = {record.object.name: record.state for record in made.ledger_writer.ledger.objects(str(NAME))}
    assert states == dict.fromkeys(("00000001", "00000002"), ObjectState.APPLIED)


def test_without_a_last_object_nothing_counts_as_applied() -> None:
    assert len(request_adoption(job(ExternalTableReader()), None).remaining) == 3
    with pytest.raises(ConfigError, match="there are 3, from 00000001 to 00000003"):
        request_adoption(job(ExternalTableReader()), "00000009")


def test_the_adoption_of_a_table_without_a_key_has_a_warning() -> None:
    bare = replace(job(ExternalTableReader()), dimension=replace(DIMENSION, key=()))
    (caution,) = request_adoption(bare, None).cautions
    assert "of a waiting file each row becomes a new one" in caution
    assert request_adoption(job(ExternalTableReader()), None).cautions == ()


def test_a_format_without_adoption_refuses_it() -> None:
    with pytest.raises(ConfigError, match="takes over no table of another writer"):
        request_adoption(job(None), None)


def test_all_reasons_against_an_adoption_are_named_at_once() -> None:
    other = columns(note="int")
    found = ExternalTable(
        state="7", schema=other, rows=3, null_keys=1, duplicate_keys=2, example="4", refused=["it is of stone"]
    )
    with pytest.raises(TableError) as refused:
        request_adoption(job(ExternalTableReader(found)), None)
    said = str(refused.value.found)
    for reason in (
        "it is of stone",
        "it lacks id of the key",
        "1 row has NULL",
        "2 keys stand",
        "the source differs",
    ):
        assert reason in said


def test_a_history_or_soft_deletes_are_no_forms_of_an_adopted_table() -> None:
    made = replace(job(ExternalTableReader()), dimension=replace(DIMENSION, history=History()))
    with pytest.raises(TableError) as refused:
        request_adoption(made, None)
    assert "it is to be a history" in str(refused.value.found)


def test_an_adopted_table_does_not_match_rows_by_image_later() -> None:
    """Its rows have no positions: among equal rows nothing says which one goes."""
    theirs, bare = ExternalTableReader(), replace(DIMENSION, key=())
    made = replace(job(theirs), dimension=bare)
    adopt(made, request_adoption(made, "00000003"))
    ((_, progress),) = theirs.adopted
    refuse_other_options(bare, progress)
    with pytest.raises(SchemaConflict, match="cannot become one whose changes find their rows by images"):
        refuse_other_options(replace(bare, match=Match.IMAGE), progress)
