"""Refreshing a joined table in a lake of plain Python: one commit a batch, refusals before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest
from joined_shops import shapes, tables_of
from types_of_columns import columns

from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import CommitConflict, SchemaConflict, TableError
from lakeward.core.history.options import History, Kind
from lakeward.core.joined.declaration import JoinDeclaration
from lakeward.core.joined.join_definition import JoinDefinition
from lakeward.core.joined.omitted_rows import OmittedRows
from lakeward.core.joined.plan import JoinPlan, JoinProgress, SourceCommit, SourceState
from lakeward.core.joined.refresh import JoinJob, JoinReport, plan_next, refresh
from lakeward.core.merge.counts import Counts
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Commit, MergeResult, SkippedKeys, TableState
from lakeward.core.progress import Progress
from lakeward.core.schema_changes.evolution import Policies

SOURCES = shapes()["dimension"]
CUSTOMER, REGION = SOURCES["customer"].table, SOURCES["region"].table
JOINED = JoinDeclaration(name=TableName("dw", "dim"), sources=SOURCES)
TABLES = {one.table: tables_of()[one.table] for one in SOURCES.values()}
HISTORIES = {name: replace(one, history=History()) for name, one in TABLES.items()}
ONE_KEY = SkippedKeys(2, '["7"]: two versions are valid at once (valid_from = 2026-11-03)')


@dataclass
class Lake:
    """A lake and its joined table, which counts what it is asked to write.

    `races` commits are lost to others, and keys are `left`.
    """

    states: dict[TableName, TableState] = field(default_factory=dict)
    batch: int = 1
    races: int = 0
    left: SkippedKeys | None = None
    unshown: OmittedRows = field(default_factory=OmittedRows)
    written: int = 5
    closed: int = 0
    merges: list[MergePlan] = field(default_factory=list)
    joining: JoinDefinition | None = None
    name: str = "lake.dw.dim"

    def __post_init__(self) -> None:
        self.states |= {name: TableState(Progress(batch=1), one.schema) for name, one in TABLES.items()}

    def table_state(self, dimension: Dimension) -> TableState:
        return self.states.get(dimension.name, TableState(Progress(), None))

    def joined(self, joining: JoinDefinition) -> Lake:
        self.joining = joining
        return self

    def state(self) -> TableState:
        return self.states.get(JOINED.name, TableState(Progress(), None))

    def sources(self, progress: JoinProgress | None) -> Mapping[str, SourceState]:
        return dict.fromkeys(SOURCES, SourceState(now=SourceCommit(self.batch, str(self.batch))))

    def resolve(self, plan: JoinPlan, merge: MergePlan) -> MergeResult:
        self.merges.append(merge)
        return MergeResult(
            counts=Counts(),
            written=self.written,
            removed=2 if self.written else 0,
            current=1,
            skipped_keys=self.left,
            omitted_rows=self.unshown,
            close=self.close,
        )

    def close(self) -> None:
        self.closed += 1

    def commit(self, merge: MergePlan, resolved: MergeResult, progress: Progress) -> Commit:
        if self.races:
            self.races -= 1
            raise CommitConflict("another writer was there first")
        self.states[JOINED.name] = TableState(progress, merge.evolution.schema)
        return Commit("c", resolved.written, resolved.removed)


def job(lake: Lake, joined: JoinDeclaration = JOINED, sources: Mapping[TableName, Dimension] = TABLES) -> JoinJob:
    return JoinJob(joined=joined, sources=sources, target=lake, now=lambda: 7, attempts=3)


def refreshed(lake: Lake, joined: JoinDeclaration = JOINED) -> JoinReport:
    report = refresh(job(lake, joined))
    assert report is not None
    return report


def test_a_commit_notes_the_passed_commits_and_the_next_batch_continues_from_them() -> None:
    lake = Lake()
    first = refreshed(lake)
    assert (first.progress.batch, first.progress.rows, first.plan.ran, first.plan.is_first) == (1, 3, 7, True)
    assert Progress.from_json(first.progress.to_json()) == first.progress
    assert refresh(job(lake)) is None
    lake.batch = 4
    second = refreshed(lake)
    assert (second.progress.batch, second.progress.rows) == (2, 6)
    assert (second.plan.since, lake.closed) == (dict.fromkeys(SOURCES, 1), 2)


def test_it_waits_until_each_source_has_a_commit() -> None:
    lake = Lake()
    lake.states[REGION] = TableState(Progress(), TABLES[REGION].schema)
    assert refresh(job(lake)) is None
    assert plan_next(job(lake)).missing_sources == (REGION,)


def test_a_lost_race_is_tried_again_three_times_in_all() -> None:
    assert refreshed(Lake(races=2)).progress.batch == 1
    with pytest.raises(CommitConflict):
        refresh(job(Lake(races=3)))


def test_skipped_keys_hold_back_no_other_key_and_the_sources_are_not_passed() -> None:
    lake = Lake()
    refreshed(lake)
    lake.batch, lake.left = 4, ONE_KEY
    report = refreshed(lake)
    assert report.error is not None
    assert report.error.what == "dw.dim: versions of 2 keys break the rules of histories"
    assert [word for word in ("altered", "never", "loses its past") if word not in (report.error.todo or "")] == []
    assert (report.error.found, report.progress.batch, report.progress.rows) == (ONE_KEY.example, 2, 6)
    assert {one.batch for one in report.passed.values()} == {1}
    lake.written = 0
    with pytest.raises(TableError, match="versions of 2 keys break"):
        refresh(job(lake))
    assert lake.states[JOINED.name].progress.batch == 2, "there was nothing to commit"
    lake.left = None
    last = refreshed(lake)
    assert (last.plan.since, last.progress.batch, last.error) == (dict.fromkeys(SOURCES, 1), 3, None)
    assert refresh(job(lake)) is None
    assert lake.closed == 4


def test_a_first_batch_with_skipped_keys_passes_no_source_and_the_next_makes_all_anew() -> None:
    lake = Lake(left=ONE_KEY)
    report = refreshed(lake)
    assert (report.error is None, report.progress.batch, report.progress.rows) == (False, 1, 3)
    assert dict(report.passed) == {}
    lake.left = None
    last = refreshed(lake)
    assert (last.plan.since, last.plan.reasons) == ({}, ("its first batch left keys unchanged",))
    assert {one.batch for one in last.passed.values()} == {1}
    assert refresh(job(lake)) is None


def test_a_commit_notes_omitted_rows_also_where_keys_are_skipped() -> None:
    lake = Lake(unshown=OmittedRows(keyless=2, unknown=True))
    assert len(refreshed(lake).cautions) == 2
    lake.batch, lake.left, lake.unshown = 2, ONE_KEY, OmittedRows(keyless=1)
    [warning] = refreshed(lake).cautions
    assert warning.startswith("1 row of customer (shop.customer) left out")
    lake.batch, lake.left, lake.unshown = 3, None, OmittedRows()
    assert not refreshed(lake).cautions


def test_a_table_of_the_same_name_that_is_not_joined_is_left_alone() -> None:
    lake = Lake()
    lake.states[JOINED.name] = TableState(Progress(batch=3), TABLES[REGION].schema)
    with pytest.raises(TableError, match="it is not joined of others"):
        refresh(job(lake))


def test_a_table_that_a_crash_left_without_a_batch_is_begun_and_not_created_again() -> None:
    lake = Lake()
    refreshed(lake)
    lake.states[JOINED.name] = TableState(Progress(), lake.states[JOINED.name].schema)
    assert refreshed(lake).plan.is_first
    assert not lake.merges[-1].creates


def test_new_columns_and_wider_types_of_the_sources_are_followed() -> None:
    lake = Lake()
    refreshed(lake)
    customer = replace(SOURCES["customer"], columns={**SOURCES["customer"].columns, "region": "region"})
    lake.states[REGION] = TableState(Progress(batch=2), columns(code="int", title="bigint"))
    refreshed(lake, replace(JOINED, sources={**SOURCES, "customer": customer}))
    assert sorted(change.path for change in lake.merges[-1].changes) == ["region", "region_title"]


OTHER_KEY = replace(SOURCES["customer"], columns={"number": "id", "customer_name": "name"})
OTHER_KINDS = History(kinds={"customer_name": Kind.OVERWRITE})
KINDS_DIFFER = 'its versions were kept with the options {}, now {"kinds":{"customer_name":1}}'


@pytest.mark.parametrize(
    ("history", "sources", "other", "found", "loses_past"),
    [
        (None, TABLES, {"history": History()}, "its versions were kept with the options None, now {}", True),
        (None, TABLES, {"sources": {"customer": SOURCES["customer"]}}, "column address_city", False),
        (None, TABLES, {"sources": {**SOURCES, "customer": OTHER_KEY}}, "key was customer_id and is number", False),
        (History(), HISTORIES, {"history": OTHER_KINDS}, KINDS_DIFFER, False),
    ],
)
def test_a_declaration_that_the_stored_table_cannot_follow_is_refused_before_anything_is_resolved(
    history: History | None,
    sources: Mapping[TableName, Dimension],
    other: Mapping[str, object],
    found: str,
    loses_past: bool,
) -> None:
    lake, joined = Lake(), replace(JOINED, history=history)
    assert refresh(job(lake, joined, sources)) is not None
    with pytest.raises(SchemaConflict) as refused:
        plan_next(job(lake, replace(joined, **other), sources))
    assert found in (refused.value.found or "")
    assert "drop the table" in (refused.value.todo or "")
    assert ("without its past" in (refused.value.todo or "")) == loses_past
    assert len(lake.merges) == 1


def test_sources_have_the_columns_that_are_stored_by_the_names_of_their_next_batch() -> None:
    schema = columns(id="int", full="int", region="int")
    renamed = replace(TABLES[CUSTOMER], schema=schema, policies=Policies(renames={"name": "full"}))
    customer = replace(SOURCES["customer"], columns={"customer_id": "id", "customer_name": "full"})
    joined = replace(JOINED, sources={**SOURCES, "customer": customer})
    lake = Lake()
    assert refresh(job(lake, joined, {**TABLES, CUSTOMER: renamed})) is not None
    assert lake.joining is not None
    assert lake.joining.tables["customer"].schema == schema
