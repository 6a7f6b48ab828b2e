"""Expressions and patterns are put to Spark's parser: what is taken, and what is refused in which words."""

from __future__ import annotations

import pytest
from pyspark.sql import SparkSession
from types_of_columns import columns

from lakeward.adapters.spark.shaping.expressions import check_format, check_pattern, check_type, parse
from lakeward.core.errors import ConfigError
from lakeward.core.schema import Type
from lakeward.core.shaping.column_rules import TEXT, Cast

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled")]

HOST = columns(id="int", name="string", at="timestamp", items="list<int>", nest="struct<x: int>")

ACCEPTED = {
    "id + 1": (("id",), "int"),
    "upper(name) -- loud": (("name",), "string"),
    "transform(items, x -> x + id)": (("items", "id"), "array<int>"),
    "nest.x": (("nest",), "int"),
    "CASE WHEN name = 'today' THEN id END": (("name", "id"), "int"),
    "date_add(CAST(at AS date), 1)": (("at",), "date"),
    "1": ((), "int"),
    "try_divide(id, 0)": (("id",), "double"),
}
REFUSED = {
    "cannot be parsed": ["id +", "id, name", "id) AS a, (name"],
    "has a subquery": ["(SELECT 1)", "id IN (SELECT 1)", "EXISTS (SELECT 1)"],
    "names 'nam', and there is no such column": ["nam"],
    "names 'ID', and there is no such column": ["ID"],
    "names '_lakeward_row', and there is no such column": ["_lakeward_row"],
    "there is no such column": ["_metadata.file_name"],
    "cannot be resolved": ["nosuch(id)"],
    "has a *": ["*", "struct(*)"],
    "is not of one row": ["sum(id)", "count(*) > 1", "window(at, '1 day')", "explode(items)"],
    "has a window": ["max(id) OVER ()", "row_number() OVER (ORDER BY id)"],
    "another value each time": [
        *("rand()", "uuid()", "shuffle(items)", "monotonically_increasing_id()", "input_file_name()"),
        "reflect('java.lang.Math', 'random')",
    ],
    "depends on the run": [
        *("current_date", "now() > at", "unix_timestamp()", "current_user()", "version()", "TIMESTAMP 'now'"),
        *("date 'today'", "CAST('yesterday' AS date)", "to_date(' Tomorrow ')", "year(concat('to', 'day'))"),
    ],
}


def refusal(spark: SparkSession, expression: str) -> str:
    with pytest.raises(ConfigError) as refused:
        parse(spark, expression, HOST)
    return str(refused.value)


def test_an_expression_of_one_row_is_taken_with_what_it_reads_and_gives(spark: SparkSession) -> None:
    found = {expression: parse(spark, expression, HOST) for expression in ACCEPTED}
    assert {e: (set(one.columns), one.type) for e, one in found.items()} == {
        e: (set(reads), type_) for e, (reads, type_) in ACCEPTED.items()
    }


def test_anything_else_is_refused_in_words(spark: SparkSession) -> None:
    refusals = {(word, text): refusal(spark, text) for word, texts in REFUSED.items() for text in texts}
    assert [(word, text) for (word, text), said in refusals.items() if word not in said] == []
    assert "Did you mean 'name'?" in refusal(spark, "nam")


def test_spark_prints_nothing_of_its_own(spark: SparkSession, capfd: pytest.CaptureFixture[str]) -> None:
    refusal(spark, "nam")
    assert capfd.readouterr() == ("", "")


def test_without_columns_the_form_alone_is_checked(spark: SparkSession) -> None:
    assert parse(spark, "anything + 1", None).columns == ()
    with pytest.raises(ConfigError, match="has a subquery"):
        parse(spark, "(SELECT 1)", None)


def test_the_type_must_be_the_one_that_is_declared(spark: SparkSession) -> None:
    check_type(parse(spark, "id", HOST), Type("int"))
    with pytest.raises(ConfigError, match="the expression gives int, and bigint is declared"):
        check_type(parse(spark, "id", HOST), Type("bigint"))


@pytest.mark.parametrize(
    ("pattern", "by", "said"),
    [
        ("(", "", "'\\(' is no pattern"),
        ("x*", "", "matches the empty text"),
        ("(a)b", "$2", "names group 2, and the pattern has 1"),
    ],
)
def test_a_pattern_that_cannot_be_used_is_refused(spark: SparkSession, pattern: str, by: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        check_pattern(spark, pattern, by)


def test_a_pattern_of_quality_may_match_the_empty_text(spark: SparkSession) -> None:
    check_pattern(spark, r"\p{Lu}*", may_be_empty=True)
    check_pattern(spark, "(a)(b)", "$2$$")


def test_a_format_of_a_date_is_checked_in_the_direction_of_the_cast(spark: SparkSession) -> None:
    check_format(spark, Cast(column="at", type=TEXT, format="EEEE"))
    for rule in (Cast(column="name", type=Type("date"), format="EEEE"), Cast(column="at", type=TEXT, format="b")):
        with pytest.raises(ConfigError, match=f"'{rule.format}' is no pattern of a {rule.type}"):
            check_format(spark, rule)
