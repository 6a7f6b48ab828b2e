"""When a joined table goes on from what was touched, and when it is made anew."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from joined_laws import shapes, tables_of

from lakeward.core.dimension import TableName
from lakeward.core.history.options import ByRun, History, Track
from lakeward.core.joined.check import validate_joined
from lakeward.core.joined.declared import Joined
from lakeward.core.joined.joining import Joining
from lakeward.core.joined.plan import JoinProgress, SourceCommit, SourceState, plan_join, recent_commits


def joining(shape: str = "summary", unknown: Mapping[str, str] | None = None) -> Joining:
    return validate_joined(Joined(name=TableName("dw", "t"), sources=shapes()[shape], unknown=unknown), tables_of())


SUMMARY = joining()
STATES = {name: SourceState(now=SourceCommit(7, f"{name}-7")) for name in SUMMARY.joined.sources}
PASSED = {name: one.now for name, one in STATES.items()}
PROGRESS = JoinProgress(batch=3, digest=SUMMARY.joined.digest, passed=PASSED)
EIGHT = SourceCommit(8, "orders-8")
TAKEN_BACK = SourceState(now=SourceCommit(6, "orders-6b"), goes_on=False, kept=SourceCommit(5, "orders-5"))


def test_the_first_batch_makes_all_rows() -> None:
    plan = plan_join(SUMMARY, None, STATES)
    assert plan is not None
    assert (plan.batch, plan.is_first, plan.whole) == (1, True, ("nothing stands yet",))


def test_nothing_is_joined_before_each_source_stands() -> None:
    assert plan_join(SUMMARY, None, {name: one for name, one in STATES.items() if name != "orders"}) is None


def test_nothing_is_done_where_nothing_is_new() -> None:
    assert plan_join(SUMMARY, PROGRESS, STATES) is None


def test_what_was_touched_since_is_asked_of_those_that_went_on_alone() -> None:
    plan = plan_join(
        SUMMARY, PROGRESS, STATES | {"orders": SourceState(now=EIGHT, remembers=7, emptied=7, spliced=7)}
    )
    assert plan is not None
    assert (plan.batch, plan.since, plan.whole) == (4, {"orders": 7}, ())
    assert plan.progress.passed == {**PASSED, "orders": EIGHT}


def test_what_no_source_tells_is_of_those_that_were_emptied_or_may_have_been_made_anew() -> None:
    states = STATES | {
        "orders": SourceState(now=EIGHT, emptied=8),
        "customer": SourceState(now=SourceCommit(8, "customer-8b"), goes_on=False),
    }
    plan = plan_join(SUMMARY, PROGRESS, states)
    assert plan is not None
    assert (plan.untold, len(plan.whole), dict(plan.since)) == ({"orders", "customer"}, 2, {})


def test_a_source_that_was_taken_back_tells_what_it_touched_since_the_commit_up_to_which_it_was() -> None:
    plan = plan_join(SUMMARY, PROGRESS, STATES | {"orders": replace(TAKEN_BACK, emptied=5)})
    assert plan is not None
    assert plan.whole == ("orders was taken back behind batch 7, or made anew",)
    assert (plan.since, plan.before, plan.untold) == ({"orders": 5}, {"orders"}, frozenset())


@pytest.mark.parametrize(
    "state",
    [
        replace(TAKEN_BACK, emptied=6),
        replace(TAKEN_BACK, spliced=6),
        replace(TAKEN_BACK, remembers=6),
        replace(TAKEN_BACK, shows_before=False),
    ],
)
def test_one_that_was_taken_back_and_does_not_tell_what_came_since_then_tells_nothing(state: SourceState) -> None:
    plan = plan_join(SUMMARY, PROGRESS, STATES | {"orders": state})
    assert plan is not None
    assert (dict(plan.since), plan.untold) == ({}, {"orders"})


def test_rows_as_they_were_are_asked_for_only_where_they_are_found_by_what_may_change() -> None:
    states = STATES | {"orders": SourceState(now=EIGHT), "customer": SourceState(now=SourceCommit(9, "customer-9"))}
    plan = plan_join(SUMMARY, PROGRESS, states)
    assert plan is not None
    assert plan.before == {"orders"}


@pytest.mark.parametrize(
    ("state", "reason"),
    [
        (SourceState(now=EIGHT, goes_on=False), "orders was taken back behind batch 7, or made anew"),
        (
            SourceState(now=SourceCommit(5, "orders-5b"), goes_on=False),
            "orders was taken back behind batch 7, or made anew",
        ),
        (SourceState(now=EIGHT, emptied=8), "orders was truncated or loaded anew in batch 8"),
        (SourceState(now=EIGHT, spliced=8), "orders took an older snapshot in batch 8"),
        (SourceState(now=EIGHT, remembers=8), "orders has forgotten deletes up to batch 8, and batch 7 was passed"),
        (SourceState(now=EIGHT, shows_before=False), "orders cannot be read as it was in batch 7"),
    ],
)
def test_where_a_source_cannot_tell_what_was_touched_all_is_made_anew(state: SourceState, reason: str) -> None:
    plan = plan_join(SUMMARY, PROGRESS, STATES | {"orders": state})
    assert plan is not None
    assert (plan.whole, plan.is_first) == ((reason,), False)


def test_of_a_source_that_is_found_by_its_key_nothing_need_be_known_as_it_was() -> None:
    state = SourceState(now=SourceCommit(8, "customer-8"), shows_before=False)
    plan = plan_join(SUMMARY, PROGRESS, STATES | {"customer": state})
    assert plan is not None
    assert plan.whole == ()


def test_another_declaration_makes_all_anew() -> None:
    other = joining(unknown={})
    plan = plan_join(other, PROGRESS, STATES)
    assert plan is not None
    assert plan.whole == ("it is declared in another way than before",)
    assert plan.progress.digest != PROGRESS.digest
    assert plan.is_redeclared


def test_what_a_source_can_tell_dates_changes_where_all_is_made_anew() -> None:
    states = STATES | {
        "orders": SourceState(now=EIGHT, emptied=8),
        "customer": SourceState(now=SourceCommit(9, "c")),
    }
    plan = plan_join(SUMMARY, PROGRESS, states)
    assert plan is not None
    assert (len(plan.whole), plan.since) == (1, {"customer": 7})


def test_sources_may_come_and_go() -> None:
    progress = JoinProgress(batch=3, digest="another", passed={**PASSED, "gone": SourceCommit(1, "g")})
    plan = plan_join(SUMMARY, progress, STATES | {"orders": SourceState(now=EIGHT)})
    assert plan is not None
    assert (plan.since, plan.progress.passed) == ({"orders": 7}, {**PASSED, "orders": EIGHT})


def test_progress_is_a_line_of_json() -> None:
    for progress in (
        PROGRESS,
        replace(PROGRESS, behind={"orders": (SourceCommit(6, "orders-6"), SourceCommit(5, "orders-5"))}),
    ):
        assert JoinProgress.from_json(progress.to_json()) == progress
        assert "\n" not in progress.to_json()


def test_progress_from_before_it_noted_what_lay_behind_is_read() -> None:
    found = JoinProgress.from_json('{"batch":3,"digest":"d","passed":{"orders":[7,"orders-7"]}}')
    assert (found.known("orders"), found.known("region")) == ([SourceCommit(7, "orders-7")], [])


def test_the_commits_behind_those_that_are_passed_are_noted_with_none_left_out() -> None:
    line = [SourceCommit(batch, f"orders-{batch}") for batch in range(20, 0, -1)]
    assert [recent_commits(line[:count]) for count in (1, 2)] == [(), (line[1],)]
    plan = plan_join(SUMMARY, PROGRESS, STATES | {"orders": SourceState(now=line[0], behind=recent_commits(line))})
    assert plan is not None
    assert plan.progress.known("orders") == line[:9]


def test_a_digest_tells_declarations_apart_and_is_the_same_in_each_process() -> None:
    found = [Joined(name=TableName("dw", "t"), sources=sources).digest for sources in shapes().values()]
    assert len(set(found)) == len(found)
    assert SUMMARY.joined.digest == "038aea9bcf77b482"


def test_options_of_a_history_are_in_the_digest_and_sets_in_order() -> None:
    digests = [
        replace(SUMMARY.joined, history=history).digest
        for history in (None, History(), History(validity=ByRun()), History(track=Track(frozenset("abcdefg"))))
    ]
    assert len(set(digests)) == 4
    assert digests[-1] == "cacc1c2fb4106b0d"
