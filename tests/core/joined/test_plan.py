"""When a joined table is refreshed by changed keys, and when it is made anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from joined_shops import define_shape, shapes

from lakeward.core.history.options import ByRun, History, Track
from lakeward.core.joined.join_definition import JoinDefinition
from lakeward.core.joined.omitted_rows import OmittedRows
from lakeward.core.joined.plan import JoinPlan, JoinProgress, SourceCommit, SourceState, plan_join

SUMMARY = define_shape("summary")
STATES = {name: SourceState(now=SourceCommit(7, f"{name}-7")) for name in SUMMARY.joined.sources}
PASSED = {name: one.now for name, one in STATES.items()}
PROGRESS = JoinProgress(batch=3, digest=SUMMARY.joined.digest, passed=PASSED)
EIGHT = SourceState(now=SourceCommit(8, "8"))
ROLLED_BACK = "batch 7 of orders was rolled back, dropped or has expired"


def planned(
    progress: JoinProgress | None = PROGRESS, of: JoinDefinition = SUMMARY, **states: SourceState
) -> JoinPlan:
    plan = plan_join(of, progress, STATES | states)
    assert plan is not None
    return plan


def test_the_first_batch_makes_all_rows_once_each_source_has_a_commit() -> None:
    plan = planned(None)
    assert (plan.batch, plan.is_first, plan.reasons) == (1, True, ("it has no rows yet",))
    assert plan_join(SUMMARY, None, {name: one for name, one in STATES.items() if name != "orders"}) is None


@pytest.mark.parametrize(
    "states", [{"orders": replace(EIGHT, remembers=7, replaced=7)}, {"orders": EIGHT, "customer": EIGHT}]
)
def test_changes_are_read_of_new_commits(states: Mapping[str, SourceState]) -> None:
    plan = planned(**states)
    assert (plan.batch, plan.since, plan.reasons) == (4, dict.fromkeys(states, 7), ())
    assert plan.progress.passed == {**PASSED, **{name: one.now for name, one in states.items()}}


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (replace(EIGHT, has_passed=False), ROLLED_BACK),
        (SourceState(now=SourceCommit(7, "again"), has_passed=False), ROLLED_BACK),
        (replace(EIGHT, replaced=8), "orders was truncated, loaded anew or took an older snapshot in batch 8"),
        (replace(EIGHT, remembers=8), "orders has forgotten deletes up to batch 8, and batch 7 was passed"),
    ],
)
def test_all_is_made_anew_where_a_source_cannot_list_its_changes(state: SourceState, reason: str) -> None:
    for plan in (planned(orders=state), planned(orders=state, customer=EIGHT)):
        assert (plan.reasons, plan.is_first, plan.since) == ((reason,), False, {})


def test_another_declaration_makes_all_anew_and_its_sources_may_be_others() -> None:
    progress = replace(PROGRESS, passed={**PASSED, "gone": SourceCommit(1, "g")})
    plan = planned(progress, replace(SUMMARY, joined=replace(SUMMARY.joined, unknown={})), orders=EIGHT)
    assert plan.reasons == ("it is declared in another way than before",)
    assert (plan.since, plan.progress.passed) == ({}, {**PASSED, "orders": EIGHT.now})
    assert plan.progress.digest != PROGRESS.digest


def test_a_history_of_histories_is_made_anew_with_each_change_of_a_source() -> None:
    over_time = define_shape("summary", History(), of=History())
    progress = replace(PROGRESS, digest=over_time.joined.digest)
    plan = planned(progress, over_time, orders=replace(EIGHT, has_passed=False))
    assert (plan.reasons, plan.since) == (("it is a history of histories",), {})
    assert plan_join(over_time, progress, STATES) is None


def test_progress_is_stored_as_one_line_of_json() -> None:
    for progress in (PROGRESS, replace(PROGRESS, unshown=OmittedRows(2, True))):
        assert JoinProgress.from_json(progress.to_json()) == progress
        assert "\n" not in progress.to_json()
    assert JoinProgress.from_json('{"batch":1,"digest":"d","passed":{}}').unshown == OmittedRows()


def test_digests_differ_between_declarations_and_are_equal_in_each_process() -> None:
    histories = [None, History(), History(validity=ByRun()), History(track=Track(frozenset("abcdefg")))]
    found = [define_shape(shape).joined for shape in shapes()]
    found += [replace(SUMMARY.joined, history=history) for history in histories[1:]]
    assert len({one.digest for one in found}) == len(found)
    assert found[-1].digest == "8e2f9bd91d45011c"
