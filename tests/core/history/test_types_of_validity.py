"""Which types validity columns may have: all that hold whatever the column has that dates versions."""

from __future__ import annotations

import pytest

from lakeward.core.errors import ConfigError
from lakeward.core.history.options import ByColumn, History, ValidityColumns
from lakeward.core.schema import Column, Schema, Type, parse_type


def check(column: str, type_: str, *, closed: bool = False) -> None:
    own = Schema((Column("id", Type("int")), Column("seen", parse_type(column))))
    history = History(
        validity=ByColumn("seen"), validity_columns=ValidityColumns(type=parse_type(type_), closed=closed)
    )
    history.check("shop.item", own, ("id",))


@pytest.mark.parametrize(
    ("column", "types"),
    [
        ("int", ["int", "bigint", "decimal(10,0)"]),
        ("bigint", ["bigint", "decimal(19,0)", "decimal(38,0)"]),
        ("decimal(9,0)", ["int", "bigint", "decimal(9,0)"]),
        ("decimal(10,0)", ["bigint", "decimal(10,0)"]),
        ("decimal(18,0)", ["bigint", "decimal(18,0)"]),
        ("decimal(19,0)", ["decimal(19,0)", "decimal(20,0)"]),
        ("timestamp", ["timestamp", "timestamp_ntz", "date"]),
        ("date", ["date"]),
    ],
)
def test_a_type_that_holds_every_value_of_the_column_is_accepted(column: str, types: list[str]) -> None:
    for type_ in types:
        check(column, type_)


@pytest.mark.parametrize(
    ("column", "type_", "todo"),
    [
        ("bigint", "int", "It may be bigint or decimal(19,0): say which as `type`."),
        ("bigint", "decimal(3,0)", "It may be bigint or decimal(19,0): say which as `type`."),
        ("bigint", "decimal(20,1)", "It may be bigint or decimal(19,0): say which as `type`."),
        ("bigint", "date", "It may be bigint or decimal(19,0): say which as `type`."),
        ("int", "decimal(9,0)", "It may be int or bigint or decimal(10,0): say which as `type`."),
        ("decimal(10,0)", "int", "It may be bigint or decimal(10,0): say which as `type`."),
        ("decimal(19,0)", "bigint", "It may be decimal(19,0): say which as `type`."),
        ("date", "timestamp", "It may be date: say which as `type`."),
        ("timestamp", "bigint", "It may be timestamp or timestamp_ntz or date: say which as `type`."),
    ],
)
def test_a_type_that_lacks_a_value_of_the_column_is_refused(column: str, type_: str, todo: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check(column, type_)
    assert (refused.value.found, refused.value.todo) == (f"valid_from is {parse_type(type_).with_article}", todo)


@pytest.mark.parametrize("type_", ["bigint", "date"])
def test_closed_versions_need_days(type_: str) -> None:
    with pytest.raises(ConfigError) as refused:
        check("bigint", type_, closed=True)
    assert refused.value.found == "seen, which dates its versions, is a bigint"
    assert refused.value.todo == "`closed` shows the last day of a version: leave it out."
    with pytest.raises(ConfigError) as refused:
        check("timestamp", "timestamp", closed=True)
    assert refused.value.todo == "It may be date: say which as `type`."
