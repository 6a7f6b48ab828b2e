"""The laws of a notifier: people get all that a notice says, and an error shows no secret."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final, TypeAlias

import pytest

from lakeward.core.errors import LakewardError
from lakeward.core.ports import Notifier
from lakeward.core.reporting.notices import NoticeEntry, RunNotice
from lakeward.plugins.testing.contract import Closed, port_contract


@dataclass(frozen=True, slots=True, kw_only=True)
class NotifierUnderTest:
    """A notifier under test, and the texts that people have received from it so far, in order.

    One that is `unreachable` may not get rid of a notice; `unshown` is a text that neither may show, as a token.
    """

    notifier: Notifier
    received: Callable[[], Sequence[str]]
    unreachable: Notifier | None = None
    unshown: str = field(default="", repr=False)


Law: TypeAlias = Callable[[NotifierUnderTest], None]

NOTICE: Final = RunNotice(
    pipeline="shop",
    run="0123456789ab",
    at=1_796_083_200_000_000,
    entries=(
        NoticeEntry(
            table="shop.orders",
            code="LEDGER-001",
            reason="1 file appeared below the mark",
            found="00000007 came late",
            next_step="`lakeward ack shop.orders LEDGER-001`",
        ),
        NoticeEntry(table="shop.lines", code="SourceError", reason="00000003 cannot be read"),
    ),
)
"""What is told in the laws."""


def notifier_contract(make: Callable[..., NotifierUnderTest]) -> type:
    """Return a test class with the laws of a notifier; parameters of `make` are fixtures of pytest."""
    return port_contract("The laws of a notifier.", make, LAWS)


def _parts(notice: RunNotice) -> Sequence[str]:
    entries = [
        part
        for entry in notice.entries
        for part in (entry.table, entry.code, entry.reason, entry.found, entry.next_step)
        if part
    ]
    return [notice.pipeline, *entries]


def _received(bench: NotifierUnderTest, notice: RunNotice) -> str:
    before = len(bench.received())
    bench.notifier.send(notice)
    (text,) = bench.received()[before:]
    return text


def a_notice_is_received_once_with_all_that_it_says(bench: NotifierUnderTest) -> None:
    """The pipeline, and of each table its code, the reason, what was found and what to do."""
    text = _received(bench, NOTICE)
    assert [part for part in _parts(NOTICE) if part not in text] == []


def each_notice_is_received_in_order(bench: NotifierUnderTest) -> None:
    """It is not for a notifier to leave out what it has told before."""
    first = _received(bench, NOTICE)
    other = _received(bench, replace(NOTICE, entries=NOTICE.entries[1:]))
    assert _received(bench, NOTICE) == first
    assert "LEDGER-001" not in other


def odd_texts_arrive_as_they_are(bench: NotifierUnderTest) -> None:
    """Names of tables and files may have any character but control characters."""
    entry = NoticeEntry(table='shop."été"', code="SourceError", reason="<b>&amp; \\n 'ß' 😀 {0} %s")
    text = _received(bench, replace(NOTICE, entries=[entry]))
    assert entry.table in text
    assert entry.reason in text


def a_long_notice_is_received(bench: NotifierUnderTest) -> None:
    """A source that is gone fails hundreds of tables, with long errors; not all of them need be shown."""
    long = NoticeEntry(table="shop.t0", code="TableError", reason="😀" * 40_000, found="x" * 40_000)
    text = _received(bench, replace(NOTICE, entries=[replace(long, table=f"shop.t{n}") for n in range(500)]))
    assert "shop.t0" in text


def one_that_cannot_be_reached_says_what_to_do_and_shows_no_secret(bench: NotifierUnderTest) -> None:
    """Neither in the error, nor in what stands behind it, nor in what the notifier is written as."""
    if bench.unreachable is None:
        raise Closed("a notifier that cannot be reached")
    with pytest.raises(LakewardError) as raised:
        bench.unreachable.send(NOTICE)
    error = raised.value
    assert error.todo
    said = f"{error!r} {error} {error.__cause__!r} {error.__context__!r}"
    shown = f"{said} {bench.unreachable!r} {bench.notifier!r}"
    assert not bench.unshown or bench.unshown not in shown


LAWS: Final[tuple[Law, ...]] = (
    a_notice_is_received_once_with_all_that_it_says,
    each_notice_is_received_in_order,
    odd_texts_arrive_as_they_are,
    a_long_notice_is_received,
    one_that_cannot_be_reached_says_what_to_do_and_shows_no_secret,
)
