"""The laws of a notifier: people receive everything that a notice says, and errors show no secret."""

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
    """A notifier under test.

    - `received`: returns the texts that people have received so far, in order.
    - `unreachable`: another notifier, which cannot deliver a notice.
    - `unshown`: a text that neither may show, such as a token.
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
            reason="1 file appeared below the low watermark",
            found="00000007 came late",
            next_step="`lakeward ack shop.orders LEDGER-001`",
        ),
        NoticeEntry(table="shop.lines", code="SourceError", reason="00000003 cannot be read"),
    ),
)
"""The notice that the laws send."""


def notifier_contract(make: Callable[..., NotifierUnderTest]) -> type:
    """Return a test class with the laws of a notifier. Parameters of `make` are pytest fixtures."""
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


def a_notice_is_received_once_and_complete(bench: NotifierUnderTest) -> None:
    """A notice is received once, with the pipeline, and the code, reason, finding and next step of each table."""
    text = _received(bench, NOTICE)
    assert [part for part in _parts(NOTICE) if part not in text] == []


def each_notice_is_received_in_order(bench: NotifierUnderTest) -> None:
    """A notifier sends every notice, also one that it sent before."""
    first = _received(bench, NOTICE)
    other = _received(bench, replace(NOTICE, entries=NOTICE.entries[1:]))
    assert _received(bench, NOTICE) == first
    assert "LEDGER-001" not in other


def odd_texts_are_received_unchanged(bench: NotifierUnderTest) -> None:
    """Names may have any character except control characters, and are received unchanged."""
    entry = NoticeEntry(table='shop."été"', code="SourceError", reason="<b>&amp; \\n 'ß' 😀 {0} %s")
    text = _received(bench, replace(NOTICE, entries=[entry]))
    assert entry.table in text
    assert entry.reason in text


def a_long_notice_is_received(bench: NotifierUnderTest) -> None:
    """A notice of hundreds of tables with long errors is received. It may be shortened."""
    long = NoticeEntry(table="shop.t0", code="TableError", reason="😀" * 40_000, found="x" * 40_000)
    text = _received(bench, replace(NOTICE, entries=[replace(long, table=f"shop.t{n}") for n in range(500)]))
    assert "shop.t0" in text


def an_unreachable_notifier_says_what_to_do_and_shows_no_secret(bench: NotifierUnderTest) -> None:
    """An unreachable notifier raises a LakewardError that says what to do. No text or cause of it has a secret."""
    if bench.unreachable is None:
        raise Closed("a notifier that cannot be reached")
    with pytest.raises(LakewardError) as raised:
        bench.unreachable.send(NOTICE)
    error = raised.value
    assert error.todo
    texts = f"{error!r} {error} {error.__cause__!r} {error.__context__!r} {bench.unreachable!r} {bench.notifier!r}"
    assert not bench.unshown or bench.unshown not in texts


LAWS: Final[tuple[Law, ...]] = (
    a_notice_is_received_once_and_complete,
    each_notice_is_received_in_order,
    odd_texts_are_received_unchanged,
    a_long_notice_is_received,
    an_unreachable_notifier_says_what_to_do_and_shows_no_secret,
)
