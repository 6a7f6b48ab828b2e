"""Texts of values in plain Python, as `docs/reference/types.md` defines them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from pages import codes, sections, tables

from lakeward.core.schema import parse_type
from lakeward.core.text.values import MISFIT, from_text, to_text

(FROM_TEXT,) = tables(sections("docs/reference/types.md")["From text"])
CASES = [
    (codes(row["type"])[0], shown, is_accepted)
    for row in FROM_TEXT
    for column, is_accepted in (("accepted", True), ("refused", False))
    for shown in codes(row[column])
]


@pytest.mark.parametrize(("type_", "shown", "is_accepted"), CASES)
def test_texts_are_read_as_the_page_says(type_: str, shown: str, is_accepted: bool) -> None:
    assert (from_text(shown, parse_type(type_)) is not MISFIT) == is_accepted


def test_a_time_without_a_zone_is_in_the_given_zone() -> None:
    summer = from_text("2026-07-01 12:00", parse_type("timestamp"), "Europe/Berlin")
    assert summer == datetime(2026, 7, 1, 10, tzinfo=UTC)
    zoned = from_text("2026-07-01 12:00:00 +05:30", parse_type("timestamp"), "Europe/Berlin")
    assert zoned == datetime(2026, 7, 1, 6, 30, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "type_", "shown"),
    [
        (True, "boolean", "true"),
        (-7, "bigint", "-7"),
        (Decimal("1.5"), "decimal(8,2)", "1.50"),
        (Decimal(0), "decimal(20,10)", "0.0000000000"),
        (date(2026, 2, 28), "date", "2026-02-28"),
        (datetime(2026, 2, 28, 1, 2, 3, 450000), "timestamp_ntz", "2026-02-28 01:02:03.45"),
        (datetime(2026, 2, 28, tzinfo=UTC), "timestamp", "2026-02-28 00:00:00"),
        (datetime(500, 1, 1, tzinfo=UTC), "timestamp", "0500-01-01 00:00:00"),
    ],
)
def test_a_value_has_one_text_and_the_text_leads_back(value: object, type_: str, shown: str) -> None:
    assert to_text(value, parse_type(type_)) == shown
    assert from_text(shown, parse_type(type_)) == value
