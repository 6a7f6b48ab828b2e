"""Versions that are new are numbered part by part, and get the same numbers whoever asks how often."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.spark.history.surrogate_numbers import Numbering

pytestmark = pytest.mark.spark

VERSIONS, PARTS = 1000, 7


def fresh(spark: SparkSession, number: str) -> DataFrame:
    """Return versions as they are to be written, in parts of which one has nothing new, and one nothing at all."""
    rows = spark.range(0, VERSIONS, 1, PARTS).where("id NOT BETWEEN 150 AND 290")
    number = f"CASE WHEN id BETWEEN 430 AND 580 THEN id + 5000 ELSE {number} END"
    return rows.selectExpr(f"named_struct('id', id, 'number', {number}) AS fresh").localCheckpoint()


def numbers(frame: DataFrame) -> dict[int, int]:
    found = [tuple(row) for row in frame.selectExpr("fresh.id", "fresh.number").collect()]
    assert len({*found}) == len(found)
    return dict(found)


def test_what_is_new_is_numbered_on_without_a_gap_and_what_has_a_number_keeps_it(spark: SparkSession) -> None:
    versions = fresh(spark, "CASE WHEN id % 3 = 0 THEN id + 5000 END")
    stored_numbers = {place: number for place, number in numbers(versions).items() if number is not None}
    numbering = Numbering.of(versions, 41)
    found = numbers(numbering.give(versions))
    assert {place: found[place] for place in stored_numbers} == stored_numbers
    given = sorted(number for place, number in found.items() if place not in stored_numbers)
    assert given == [*range(42, 42 + numbering.given)]
    assert found.keys() == numbers(versions).keys()


def test_the_numbers_are_the_same_however_the_versions_are_written(spark: SparkSession) -> None:
    versions = fresh(spark, "bigint(NULL)")
    given = Numbering.of(versions, 0).give(versions)
    found = numbers(given)
    assert found == numbers(given.coalesce(1)) == numbers(given.coalesce(3)) == numbers(given.repartition(5))
    assert found == numbers(given.orderBy("fresh.id")) == numbers(Numbering.of(versions, 0).give(versions))


def test_where_nothing_is_new_nothing_is_given(spark: SparkSession) -> None:
    versions = fresh(spark, "id")
    numbering = Numbering.of(versions, 41)
    assert numbering.given == 0
    assert numbers(numbering.give(versions)) == numbers(versions)
