"""What a run tells people, and when it tells it again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from lakeward.core.ledger.full_loads import AwaitedLoad
from lakeward.core.progress import Progress
from lakeward.core.reporting.alarms import Alarm
from lakeward.core.reporting.failures import Failure
from lakeward.core.reporting.notices import (
    NoticeEntry,
    RunNotice,
    SentEntry,
    after_sending,
    after_waiting,
    find_entries,
    of_quarantined,
    of_unrouted_rows,
    unsent,
    without_ended,
)

MINUTE = 60_000_000
FAILED = NoticeEntry(
    table="shop.orders", code="SourceError", reason="00000001 cannot be read", next_step="Replace it."
)
HELD = NoticeEntry(table="shop.lines", code="held", reason="keys are held", found="2 keys")
NOTICE = RunNotice(pipeline="shop", run="r1", at=1_796_083_200_000_000, entries=[FAILED])


def later(minutes: float, *entries: NoticeEntry) -> RunNotice:
    return replace(NOTICE, at=NOTICE.at + round(minutes * MINUTE), entries=entries)


# What is told.


def test_a_table_that_needs_nobody_has_no_entry() -> None:
    assert find_entries("shop.orders", progress=Progress(batch=3, rows=5), awaited=AwaitedLoad(epoch=2)) == []


def test_each_reason_is_an_entry_with_the_next_step() -> None:
    failure = Failure("AlarmRaised", "files are gone", "2 files", "Put them back.", retryable=False, at=0)
    found = find_entries(
        "shop.orders",
        failure=failure,
        code="LEDGER-003",
        alarms=[Alarm("CLOCK-001", "a commit time lies in the future", "1 h ahead", "Correct the clock.")],
        progress=Progress(held=1, inexact_since="00000007"),
        quarantined=1200,
        awaited=AwaitedLoad(epoch=2, since=1, until="the task says nothing"),
    )
    assert {entry.table for entry in found} == {"shop.orders"}
    assert [(entry.code, entry.found, entry.next_step) for entry in found] == [
        ("LEDGER-003", "2 files", "Put them back."),
        ("CLOCK-001", "1 h ahead", "Correct the clock."),
        ("quarantine", "1,200 rows", "`lakeward quarantine show shop.orders`"),
        ("held", "1 key", "`lakeward quarantine show shop.orders`"),
        ("inexact", "since 00000007", "`lakeward quarantine show shop.orders`"),
        (
            "load",
            "waits for a full load: nothing of it yet; the task says nothing",
            "`lakeward status shop.orders`; docs/how-to/reload.md says what completes it",
        ),
    ]


def test_people_read_tables_reasons_and_steps_in_lines() -> None:
    notice = replace(NOTICE, entries=[replace(FAILED, found="one\ntwo", since=NOTICE.at), of_unrouted_rows(3)])
    assert notice.text.splitlines() == [
        "lakeward shop: 1 table needs somebody (run r1, 2026-12-01T00:00:00Z)",
        "",
        "shop.orders: SourceError",
        "  00000001 cannot be read",
        "  found: one",
        "    two",
        "  next: Replace it.",
        "  first told: 2026-12-01T00:00:00Z",
        "",
        "strays",
        "  rows do not say of which table they are, so any table may lack them",
        "  found: 3 rows",
        "  next: `lakeward quarantine unrouted`",
    ]


def test_a_notice_without_tables_is_about_the_pipeline() -> None:
    assert replace(NOTICE, entries=[of_unrouted_rows(1)]).subject == "lakeward shop: the pipeline needs somebody"


def test_a_long_notice_is_cut_and_says_so() -> None:
    long = replace(FAILED, reason="x" * 100_000)
    notice = replace(NOTICE, entries=[replace(long, table=f"shop.t{n}") for n in range(300)])
    assert notice.subject == "lakeward shop: 300 tables need somebody"
    assert "and 280 more" in notice.text
    assert len(notice.text) < 20_000
    document = notice.to_document()
    assert (len(document["entries"]), document["more"]) == (20, 280)
    assert document["entries"][0]["reason"] == "x" * 500 + " …"


def test_characters_that_services_refuse_are_replaced() -> None:
    notice = replace(NOTICE, entries=[replace(FAILED, table="a\x00b", reason="c\x1b[31m\udcff\n\tü")])
    assert "a\ufffdb" in notice.text
    assert notice.to_document()["entries"][0]["reason"] == "c\ufffd[31m\ufffd\n\ufffdü"
    assert notice.text.encode()


# When it is told again.


def after_first_notice(notice: RunNotice, *, sent: tuple[SentEntry, ...] = ()) -> tuple[SentEntry, ...]:
    due = unsent(notice, "sns", sent)
    assert due is not None
    return after_sending(notice, "sns", sent)


def test_an_entry_is_sent_again_after_an_hour_with_the_time_of_the_first() -> None:
    sent = after_first_notice(later(0, FAILED, HELD))
    assert unsent(later(59.99, HELD, FAILED), "sns", sent) is None
    again = unsent(later(60, FAILED, HELD), "sns", sent)
    assert again is not None
    assert [entry.since for entry in again.entries] == [NOTICE.at, NOTICE.at]
    sent = after_sending(again, "sns", sent)
    assert unsent(later(119, FAILED, HELD), "sns", sent) is None
    third = unsent(later(120, FAILED), "sns", sent)
    assert third is not None
    assert third.entries[0].since == NOTICE.at


@pytest.mark.parametrize(
    "other",
    [
        replace(FAILED, found="another file"),
        replace(FAILED, next_step="Replace that."),
        replace(FAILED, reason="00000002 cannot be read"),
        replace(FAILED, since=5),
    ],
)
def test_an_entry_with_other_numbers_is_the_same(other: NoticeEntry) -> None:
    assert unsent(later(1, other), "sns", after_first_notice(NOTICE)) is None


@pytest.mark.parametrize(
    "other",
    [
        replace(FAILED, table="shop.lines"),
        replace(FAILED, code="TableError"),
        replace(FAILED, reason="00000001 cannot be found"),
    ],
)
def test_another_table_code_or_reason_is_sent_with_all_entries(other: NoticeEntry) -> None:
    due = unsent(later(1, FAILED, other), "sns", after_first_notice(NOTICE))
    assert due is not None
    assert [entry.since for entry in due.entries] == [NOTICE.at, None]


def test_fewer_entries_are_no_news() -> None:
    sent = after_first_notice(later(0, FAILED, HELD))
    assert unsent(later(1, HELD), "sns", sent) is None
    assert unsent(later(1), "sns", sent) is None


def test_each_notifier_has_its_own_memory() -> None:
    sent = after_first_notice(NOTICE)
    assert unsent(later(1, FAILED), "webhook", sent) is not None
    both = after_sending(later(1, FAILED), "webhook", sent)
    assert {(one.notifier, one.first) for one in both} == {("sns", NOTICE.at), ("webhook", NOTICE.at + MINUTE)}


def test_an_entry_is_sent_where_the_clock_was_set_back() -> None:
    assert unsent(later(-1, FAILED), "sns", after_first_notice(NOTICE)) is not None


def test_an_entry_that_comes_and_goes_is_sent_once_an_hour() -> None:
    tables = {"shop.orders", "shop.lines"}
    sent = after_first_notice(NOTICE)
    sent = without_ended(sent, later(30), tables, tables)
    assert unsent(later(40, FAILED), "sns", sent) is None
    sent = without_ended(sent, later(60), tables, tables)
    assert sent == ()
    anew = unsent(later(61, FAILED), "sns", sent)
    assert anew is not None
    assert anew.entries[0].since is None


def test_entries_of_a_configured_table_stay_until_a_run_looks_at_it() -> None:
    sent, day = after_first_notice(NOTICE), later(24 * 60)
    assert without_ended(sent, day, {"shop.lines"}, {"shop.orders", "shop.lines"}) == sent
    assert without_ended(sent, day, {"shop.lines"}, {"shop.lines"}) == ()
    assert without_ended(sent, later(24 * 60, FAILED), {"shop.orders"}, {"shop.orders"}) == sent


def test_rows_add_up_until_they_are_sent() -> None:
    sent = after_first_notice(later(0, of_quarantined("shop.orders", 5)))
    more = later(15, of_quarantined("shop.orders", 1000))
    assert unsent(more, "sns", sent) is None
    sent = after_waiting(later(20, of_quarantined("shop.orders", 2)), "sns", after_waiting(more, "sns", sent))
    assert unsent(later(59), "sns", sent) is None
    sent = without_ended(sent, later(59), {"shop.orders"}, {"shop.orders"})
    due = unsent(later(65), "sns", sent)
    assert due is not None
    assert [(entry.code, entry.found, entry.since) for entry in due.entries] == [
        ("quarantine", "1,002 rows", NOTICE.at)
    ]
    sent = after_sending(due, "sns", sent)
    assert unsent(later(130), "sns", sent) is None


def test_rows_are_sent_with_any_other_entry() -> None:
    sent = after_waiting(later(15, of_quarantined("shop.orders", 7)), "sns", after_first_notice(NOTICE))
    due = unsent(later(16, HELD, of_quarantined("shop.orders", 3)), "sns", sent)
    assert due is not None
    assert [(entry.code, entry.found, entry.since) for entry in due.entries] == [
        ("held", "2 keys", None),
        ("quarantine", "10 rows", None),
    ]


def test_unsent_rows_are_forgotten_with_their_table() -> None:
    sent = after_waiting(later(0, of_quarantined("shop.orders", 7)), "sns", ())
    assert [(one.first, one.last, one.untold) for one in sent] == [(0, 0, 7)]
    assert without_ended(sent, later(1), {"shop.orders"}, {"shop.orders"}) == sent
    assert without_ended(sent, later(1), (), {"shop.lines"}) == ()
