"""Keeping a joined table up, in a lake of plain Python: one commit a batch, refusals before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

import pytest
from joined_laws import shapes, tables_of

from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import CommitConflict, SchemaConflict, TableError
from lakeward.core.history.options import History, Kind
from lakeward.core.joined.dates import BEYOND_OPEN_END
from lakeward.core.joined.declaration import Joined
from lakeward.core.joined.joining import Joining
from lakeward.core.joined.omitted_rows import OmittedRows
from lakeward.core.joined.plan import NO_COMMIT, JoinPlan, JoinProgress, SourceCommit, SourceState
from lakeward.core.joined.refresh import JoinJob, JoinReport, plan_next, refresh
from lakeward.core.merge.counts import Counts
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Commit, MergeResult, SkippedKeys, TableState
from lakeward.core.progress import Progress
from lakeward.core.schema import Column, Schema, Type
from lakeward.core.schema_changes.evolution import Policies

SOURCES = shapes()["dimension"]
JOINED = Joined(name=TableName("dw", "dim"), sources=SOURCES)
TABLES = {one.table: tables_of()[one.table] for one in SOURCES.values()}


@dataclass
class Lake:
    """A lake that counts what it is asked to write; `races` commits are lost to others, keys are `left`."""

    standings: dict[TableName, TableState] = field(default_factory=dict)
    batch: int = 1
    races: int = 0
    left: SkippedKeys | None = None
    unshown: OmittedRows = field(default_factory=OmittedRows)
    written: int = 5
    closed: int = 0
    merges: list[MergePlan] = field(default_factory=list)
    joining: Joining | None = None

    def __post_init__(self) -> None:
        self.standings |= {name: TableState(Progress(batch=1), one.schema) for name, one in TABLES.items()}

    def standing(self, dimension: Dimension) -> TableState:
        return self.standings.get(dimension.name, TableState(Progress(), None))

    def joined(self, joining: Joining) -> Table:
        self.joining = joining
        return Table(self, joining)


@dataclass
class Table:
    lake: Lake
    joining: Joining
    name: str = "lake.dw.dim"

    def standing(self) -> TableState:
        return self.lake.standing(self.joining.dimension)

    def sources(self, progress: JoinProgress | None) -> Mapping[str, SourceState]:
        now = SourceCommit(self.lake.batch, str(self.lake.batch))
        return {name: SourceState(now=now) for name in self.joining.joined.sources}

    def resolve(self, plan: JoinPlan, merge: MergePlan) -> MergeResult:
        self.lake.merges.append(merge)
        removed = 2 if self.lake.written else 0
        return MergeResult(
            counts=Counts(),
            written=self.lake.written,
            removed=removed,
            current=1,
            left=self.lake.left,
            unshown=self.lake.unshown,
            close=self.close,
        )

    def close(self) -> None:
        self.lake.closed += 1

    def commit(self, merge: MergePlan, resolved: MergeResult, progress: Progress) -> Commit:
        if self.lake.races:
            self.lake.races -= 1
            raise CommitConflict("another writer was there first")
        self.lake.standings[self.joining.joined.name] = TableState(progress, merge.evolution.schema)
        return Commit("c", resolved.written, resolved.removed)


def job(lake: Lake, joined: Joined = JOINED) -> JoinJob:
    return JoinJob(joined=joined, sources=TABLES, target=lake, now=lambda: 7, attempts=3)


def kept_up(lake: Lake, joined: Joined = JOINED) -> JoinReport:
    found = refresh(job(lake, joined))
    assert found is not None
    return found


def test_a_commit_says_how_far_the_sources_were_passed_and_the_next_goes_on_from_there() -> None:
    lake = Lake()
    first = kept_up(lake)
    assert (first.progress.batch, first.progress.rows, first.plan.ran, first.plan.is_first) == (1, 3, 7, True)
    assert Progress.from_json(first.progress.to_json()) == first.progress
    assert refresh(job(lake)) is None
    lake.batch = 4
    second = kept_up(lake)
    assert (second.progress.batch, second.progress.rows) == (2, 6)
    assert second.plan.since == dict.fromkeys(SOURCES, 1)
    assert lake.closed == 2


def test_it_waits_until_each_source_has_a_commit() -> None:
    lake = Lake()
    lake.standings[TableName("shop", "region")] = TableState(Progress(), TABLES[TableName("shop", "region")].schema)
    assert refresh(job(lake)) is None
    assert plan_next(job(lake)).missing_sources == (TableName("shop", "region"),)


def test_its_columns_are_those_that_stand_in_the_lake() -> None:
    lake = Lake()
    wide = Schema((Column("id", Type("bigint")), *TABLES[TableName("shop", "customer")].schema.columns[1:]))
    lake.standings[TableName("shop", "customer")] = TableState(Progress(batch=1), wide)
    kept_up(lake)
    assert lake.joining is not None
    assert str(lake.joining.dimension.schema.columns[0].type) == "bigint"


def test_a_race_that_is_lost_is_run_again_and_given_up_in_the_end() -> None:
    lake = Lake(races=2)
    assert kept_up(lake).progress.batch == 1
    with pytest.raises(CommitConflict):
        refresh(job(Lake(races=3)))


def test_keys_that_are_left_as_they_stand_hold_back_no_other_and_their_sources_are_not_passed() -> None:
    lake = Lake()
    kept_up(lake)
    lake.batch, lake.left = 4, SkippedKeys(2, '["7"]: two versions are valid at once (valid_from = 2026-11-03)')
    report = kept_up(lake)
    assert report.error is not None
    assert report.error.what == "dw.dim: versions of 2 keys break the rules of histories"
    assert [word for word in ("altered", "never", "loses its past") if word not in (report.error.todo or "")] == []
    assert (report.error.found, report.progress.batch, report.progress.rows) == (lake.left.example, 2, 6)
    assert {one.batch for one in report.passed.values()} == {1}
    lake.written = 0
    with pytest.raises(TableError, match="versions of 2 keys break"):
        refresh(job(lake))
    assert lake.standings[JOINED.name].progress.batch == 2, "there was nothing to commit"
    lake.left = None
    last = kept_up(lake)
    assert (last.plan.since, last.progress.batch, last.error) == (dict.fromkeys(SOURCES, 1), 3, None)
    assert refresh(job(lake)) is None
    assert lake.closed == 4


def test_a_first_batch_that_leaves_keys_passes_no_source_and_the_next_makes_all_anew() -> None:
    lake = Lake(left=SkippedKeys(1, f'["7"]: {BEYOND_OPEN_END} (valid_from = 2026-11-03)'))
    report = kept_up(lake)
    assert report.error is not None
    assert (report.progress.batch, report.progress.rows) == (1, 3)
    assert dict(report.passed) == dict.fromkeys(SOURCES, NO_COMMIT)
    lake.left = None
    last = kept_up(lake)
    assert (last.plan.since, last.plan.whole[0]) == ({}, "customer was read, and keys were left")
    assert len(last.plan.whole) == len(SOURCES)
    assert {one.batch for one in last.passed.values()} == {1}
    assert refresh(job(lake)) is None


def test_a_commit_says_which_rows_of_its_sources_cannot_be_shown_also_where_keys_are_left() -> None:
    lake = Lake(unshown=OmittedRows(keyless=2, unknown=True))
    [of_keys, of_unknown] = kept_up(lake).cautions
    assert of_keys.startswith("2 rows of customer (shop.customer) left out")
    assert "has a row with the key of the unknown row" in of_unknown
    lake.batch, lake.left, lake.unshown = 2, SkippedKeys(1, "…"), OmittedRows(keyless=1)
    [words] = kept_up(lake).cautions
    assert words.startswith("1 row of customer")
    lake.batch, lake.left, lake.unshown = 3, None, OmittedRows()
    assert not kept_up(lake).cautions


def test_a_table_that_is_not_joined_is_left_alone() -> None:
    lake = Lake()
    lake.standings[JOINED.name] = TableState(Progress(batch=3), TABLES[TableName("shop", "region")].schema)
    with pytest.raises(TableError, match="it is not joined of others"):
        refresh(job(lake))


def test_what_a_crash_made_and_did_not_write_is_begun() -> None:
    lake = Lake()
    kept_up(lake)
    lake.standings[JOINED.name] = TableState(Progress(), lake.standings[JOINED.name].schema)
    assert kept_up(lake).plan.is_first
    assert not lake.merges[-1].creates


def test_new_columns_and_wider_types_are_followed() -> None:
    lake = Lake()
    kept_up(lake)
    customer = replace(SOURCES["customer"], columns={**SOURCES["customer"].columns, "region": "region"})
    wider = Schema((Column("code", Type("int")), Column("title", Type("bigint"))))
    lake.standings[TableName("shop", "region")] = TableState(Progress(batch=2), wider)
    kept_up(lake, replace(JOINED, sources={**SOURCES, "customer": customer}))
    assert sorted(change.path for change in lake.merges[-1].changes) == ["region", "region_title"]


@pytest.mark.parametrize(
    ("other", "words"),
    [
        (replace(JOINED, history=History()), "its versions were kept with the options None, now {}"),
        (replace(JOINED, sources={"customer": SOURCES["customer"]}), "column address_city"),
        (
            replace(
                JOINED,
                sources={
                    **SOURCES,
                    "customer": replace(SOURCES["customer"], columns={"number": "id", "customer_name": "name"}),
                },
            ),
            "its key was customer_id and is number",
        ),
    ],
)
def test_what_cannot_follow_is_refused_before_anything_is_worked_out(other: Joined, words: str) -> None:
    lake = Lake()
    kept_up(lake)
    with pytest.raises(SchemaConflict, match=words) as refused:
        plan_next(job(lake, other))
    assert "drop the table" in (refused.value.todo or "")
    assert len(lake.merges) == 1


def test_a_history_with_other_options_is_refused() -> None:
    lake = Lake()
    joined = replace(JOINED, history=History())
    histories = {name: replace(one, history=History()) for name, one in TABLES.items()}
    asked = replace(job(lake, joined), sources=histories)
    assert refresh(asked) is not None
    kinds = replace(joined, history=History(kinds={"customer_name": Kind.OVERWRITE}))
    with pytest.raises(SchemaConflict) as refused:
        refresh(replace(asked, joined=kinds))
    words = 'its versions were kept with the options {}, now {"kinds":{"customer_name":1}}'
    assert refused.value.found == words
    assert (refused.value.todo or "").endswith("the next run makes it anew.")


def test_a_history_of_mirrors_that_is_declared_otherwise_is_not_dropped_unawares() -> None:
    lake, joined = Lake(), replace(JOINED, history=History())
    kept_up(lake, joined)
    with pytest.raises(SchemaConflict, match="without its past"):
        kept_up(lake, replace(joined, history=History(kinds={"customer_name": Kind.OVERWRITE})))


def test_a_rename_that_the_next_batch_of_a_source_will_carry_out_is_known_before() -> None:
    customer = SOURCES["customer"].table
    schema = Schema(
        tuple(replace(one, name={"name": "full"}.get(one.name, one.name)) for one in TABLES[customer].schema)
    )
    renamed = replace(TABLES[customer], schema=schema, policies=Policies(renames={"name": "full"}))
    selection = {own: "full" if column == "name" else column for own, column in SOURCES["customer"].columns.items()}
    joined = replace(JOINED, sources={**SOURCES, "customer": replace(SOURCES["customer"], columns=selection)})
    lake = Lake()
    assert refresh(replace(job(lake, joined), sources={**TABLES, customer: renamed})) is not None
    assert lake.joining is not None
    assert lake.joining.tables["customer"].schema == schema
