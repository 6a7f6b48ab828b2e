"""Quality rules: what breaks them, and what they are called."""

from __future__ import annotations

from typing import Any

import pytest
from types_of_columns import columns

from lakeward.core.errors import ConfigError
from lakeward.core.shaping.file_rules import Input, Inputs, NullShare, RowCount, find_breaches
from lakeward.core.shaping.quality_rules import (
    InSet,
    Length,
    NotNull,
    Pattern,
    QualityRule,
    Range,
    RowRule,
    Unique,
    check,
    is_broken,
)

HOST = columns(id="int", name="string", rate="double", since="date")


@pytest.mark.parametrize(
    ("rule", "column", "kept", "broken"),
    [
        (NotNull(of=("name",)), "name", ["", "a"], [None]),
        (InSet(column="name", values=("a", "b")), "name", ["a", None], ["c", "A", ""]),
        (InSet(column="rate", values=("0", "NaN")), "rate", [-0.0, float("nan")], [0.1]),
        (Range(column="id", least="1", most="9"), "id", [1, 9, None], [0, 10]),
        (Range(column="rate", most="1"), "rate", [1.0, float("-inf")], [1.1, float("nan")]),
        (Pattern(column="name", pattern="a|b+"), "name", ["a", "bb", None], ["ab", "xa", "a\n"]),
        (Length(column="name", least=1, most=2), "name", ["é", "😀😀"], ["", "abc"]),
    ],
)
def test_a_rule_is_kept_or_broken(rule: RowRule, column: str, kept: list[Any], broken: list[Any]) -> None:
    assert [value for value in kept if is_broken(rule, {column: value}, HOST)] == []
    assert [value for value in broken if not is_broken(rule, {column: value}, HOST)] == []


def test_the_label_of_a_rule_is_its_name_or_its_kind() -> None:
    assert NotNull(of=("id", "name")).label == "not_null(id, name)"
    assert Unique(name="no twins").label == "no twins"


@pytest.mark.parametrize(
    ("rule", "said"),
    [
        (NotNull(of=("nam",)), "quality rule 1, not_null: the table has no column 'nam'"),
        (Length(column="id", most=3), "quality rule 1, length: it takes a string"),
        (Range(column="id", least="10", most="9"), "no value lies between 10 and 9"),
        (Range(column="id", least="x"), "quality rule 1, range: 'x' is no int"),
        (InSet(column="since", values=("2026",)), "quality rule 1, in_set: '2026' is no date"),
        (NullShare(column="nam", most=0.5), "quality rule 1, null_share: the table has no column 'nam'"),
    ],
)
def test_a_rule_that_does_not_fit_the_columns_is_refused(rule: QualityRule, said: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check([rule], HOST, ["id"])
    assert said in str(refused.value)


def test_the_rule_unique_needs_a_key() -> None:
    check([Unique()], HOST, ["id"])
    with pytest.raises(ConfigError, match="the table has no key"):
        check([Unique()], HOST, [])


def one(name: str = "LOAD00000001.csv", rows: int = 10, nulls: int = 0, *, is_load: bool = True) -> Input:
    return Input(name=name, is_load=is_load, rows=rows, valued=rows, nulls={"name": nulls})


def test_inputs_break_rules_in_their_order() -> None:
    rules = [RowCount(least=2), NullShare(column="name", most=0.25)]
    found = find_breaches(rules, [one(), one("b", 1, 1), one("c", 4, 2)])
    assert found == [
        ("b", "quality rule 1, row_count: it has 1 row, and 2 are the least"),
        ("b", "quality rule 2, null_share: name is NULL in 1 of 1 row (100 %), and 25 % are the most"),
        ("c", "quality rule 2, null_share: name is NULL in 2 of 4 rows (50 %), and 25 % are the most"),
    ]


def test_a_share_is_exact_at_its_bound_and_an_empty_file_has_none() -> None:
    rules = [NullShare(column="name", most=0.5)]
    assert not find_breaches(rules, [one(rows=4, nulls=2), one(rows=0)])
    assert find_breaches(rules, [one(rows=4, nulls=3)])
    assert not find_breaches(rules, [one(rows=4, nulls=4)], absent=["name"])


@pytest.mark.parametrize(("inputs", "names"), [("load", ["a"]), ("changes", ["b"]), ("all", ["a", "b"])])
def test_a_rule_may_be_for_a_full_load_or_for_changes(inputs: str, names: list[str]) -> None:
    found = find_breaches([RowCount(most=5, inputs=Inputs(inputs))], [one("a"), one("b", is_load=False)])
    assert [name for name, _ in found] == names
