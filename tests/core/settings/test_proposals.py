"""Settings proposed from a sample lose no data."""

from __future__ import annotations

import re
from datetime import date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakeward.core.schema import Type
from lakeward.core.settings import proposals
from lakeward.core.settings.proposals import TEXT, proposed_key, proposed_type
from lakeward.core.text.values import MISFIT, from_text, to_text

whole = st.integers(-(10**40), 10**40).map(str)
numbers = st.decimals(allow_nan=False, allow_infinity=False, places=3).map(str)
odd = st.sampled_from(
    ["007", "+5", "-0", "1e5", "", " 1", "1 ", ".5", "5.", "NaN", "2026-02-30", "TRUE", "0x1F", "１"]
)
dates = st.dates(date(1000, 1, 1)).map(str)
times = st.datetimes(datetime(1000, 1, 1)).map(str)
zoned = times.map(lambda text: f"{text}+01:00")
texts = st.one_of(whole, numbers, odd, dates, times, zoned, st.sampled_from(["true", "false"]), st.text(max_size=5))


def without_zeros(text: str) -> str:
    return text.rstrip("0").rstrip(".") if "." in text else text


@given(
    st.one_of(st.lists(texts, max_size=5), *[st.lists(one, max_size=5) for one in (whole, numbers, dates, times)])
)
def test_every_text_of_the_sample_comes_back_from_its_value(sample: list[str]) -> None:
    assert comes_back(sample)


def comes_back(sample: list[str]) -> bool:
    """Return True if each text is a value of the proposed type, and the text of that value."""
    type_ = proposed_type(sample)
    values = [from_text(text, type_) for text in sample]
    if MISFIT in values:
        return False
    again = [to_text(value, type_) for value in values]
    if type_.name in ("decimal", "timestamp_ntz"):  # zeros at the end of a fraction are none of a number
        return [*map(without_zeros, again)] == [*map(without_zeros, sample)]
    return again == sample


def test_the_law_finds_a_proposal_that_loses_data(monkeypatch: pytest.MonkeyPatch) -> None:
    assert comes_back(["007", "+5"])
    monkeypatch.setattr(proposals, "_WHOLE", re.compile(r"[+-]?\d+"))
    assert not comes_back(["007"])
    assert not comes_back(["+5"])


def test_types_are_as_narrow_as_the_sample_allows() -> None:
    assert str(proposed_type(["1", None, "-5"])) == "bigint"
    assert str(proposed_type(["9223372036854775808"])) == "decimal(38,0)"
    assert str(proposed_type(["1", "2.50"])) == "decimal(38,2)"
    assert str(proposed_type(["2026-11-21 08:59:58.000001"])) == "timestamp_ntz"
    assert str(proposed_type(["true", "false"])) == "boolean"
    assert proposed_type(["0", "1", "x"]) == TEXT
    assert proposed_type([None]) == Type("string")


def test_a_key_is_proposed_by_its_name_where_nothing_contradicts() -> None:
    rows = [("1", "a", "7"), ("2", "a", "8")]
    assert proposed_key("orders", ["no", "kind", "ORDER_ID"], rows) == ("ORDER_ID",)
    assert proposed_key("orders", ["id", "kind", "order_id"], rows) == ("id",)
    assert proposed_key("orders", ["x", "id", "order_id"], rows) == ("order_id",)
    for twice in ([("1",), ("1",)], [("1",), (None,)], [("",)], []):
        assert proposed_key("orders", ["id"], twice) == ()
