"""The laws of a notifier can fail, each on a mistake."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import pytest

from lakeward.core.errors import StoreUnreachable
from lakeward.core.reporting.notices import RunNotice
from lakeward.plugins.testing import NotifierUnderTest
from lakeward.plugins.testing.laws import notifiers

TOKEN = "a token that is no one's business"  # noqa: S105  # of this test


@dataclass
class Board:
    """A list of received texts. If it is `gone`, it refuses them."""

    token: str = field(default=TOKEN, repr=False)
    gone: bool = False
    texts: list[str] = field(default_factory=list)

    def send(self, notice: RunNotice) -> None:
        if self.gone:
            raise StoreUnreachable("the board cannot be reached", todo="Look for it.")
        self.put(notice)

    def put(self, notice: RunNotice) -> None:
        self.texts.append(notice.text)

    def received(self) -> Sequence[str]:
        return self.texts


class HasASubjectAlone(Board):
    def put(self, notice: RunNotice) -> None:
        self.texts.append(notice.subject)


class TellsTheSameOnce(Board):
    def put(self, notice: RunNotice) -> None:
        if notice.text not in self.texts:
            self.texts.append(notice.text)


class WritesInAscii(Board):
    def put(self, notice: RunNotice) -> None:
        self.texts.append(notice.text.encode("ascii", "replace").decode())


class LosesWhatIsLong(Board):
    def put(self, notice: RunNotice) -> None:
        if len(notice.text) < 10_000:
            self.texts.append(notice.text)


class ShowsItsToken(Board):
    def send(self, notice: RunNotice) -> None:
        if self.gone:
            try:
                raise ConnectionError(f"POST /{self.token}")
            except ConnectionError as error:
                raise StoreUnreachable("the board cannot be reached", todo="Look for it.") from error
        self.put(notice)


BROKEN: Mapping[str, type[Board]] = {
    "a_notice_is_received_once_and_complete": HasASubjectAlone,
    "each_notice_is_received_in_order": TellsTheSameOnce,
    "odd_texts_are_received_unchanged": WritesInAscii,
    "a_long_notice_is_received": LosesWhatIsLong,
    "an_unreachable_notifier_says_what_to_do_and_shows_no_secret": ShowsItsToken,
}


def bench(kind: type[Board]) -> NotifierUnderTest:
    board = kind()
    return NotifierUnderTest(
        notifier=board, received=board.received, unreachable=kind(gone=True), unshown=TOKEN
    )


@pytest.mark.parametrize("law", notifiers.LAWS)
def test_a_broken_notifier_breaks_its_law(law: notifiers.Law) -> None:
    law(bench(Board))
    with pytest.raises((AssertionError, ValueError)):
        law(bench(BROKEN[law.__name__]))


def test_every_law_has_a_notifier_that_breaks_it() -> None:
    assert [law.__name__ for law in notifiers.LAWS] == [*BROKEN]


def test_a_notifier_that_raises_no_error_is_detected() -> None:
    law = notifiers.an_unreachable_notifier_says_what_to_do_and_shows_no_secret
    with pytest.raises(pytest.fail.Exception):
        law(replace(bench(Board), unreachable=Board()))
