"""Which chains a batch reaches, where more key changes are remembered than are looked at."""

from __future__ import annotations

import pytest
from pyspark.sql import DataFrame, SparkSession

from lakeward.adapters.spark.merge.fold import fold_items
from lakeward.adapters.spark.merge.fold.fold_items import KEY, LINKED, OLD_KEY, links_of_all, reached_links
from lakeward.core.errors import TableError

pytestmark = pytest.mark.spark

MOVES = [("b", "a"), ("c", "b"), ("f", "e"), ("h", "g")]


def keys(spark: SparkSession, *of: tuple[str, str | None]) -> DataFrame:
    return spark.createDataFrame([*of], f"{KEY} string, {OLD_KEY} string")


def test_a_batch_is_joined_to_its_chains(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold_items, "MOST_LINKS", 3)
    met = reached_links(spark, keys(spark, ("d", "c"), ("x", None)), keys(spark, *MOVES))
    assert met is not None
    assert {row[KEY]: row[LINKED] for row in met.collect()} == dict.fromkeys("abcd", "a")


def test_it_reaches_none_where_its_keys_have_none(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold_items, "MOST_LINKS", 3)
    assert reached_links(spark, keys(spark, ("x", None)), keys(spark, *MOVES)) is None


def test_one_that_reaches_too_many_is_refused(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fold_items, "MOST_LINKS", 3)
    with pytest.raises(TableError, match="more than 3 key changes meet in one batch"):
        reached_links(spark, keys(spark, ("a", None), ("e", None), ("g", None)), keys(spark, *MOVES))


@pytest.mark.parametrize("most", [3, 4])
def test_many_chains_are_the_same(spark: SparkSession, monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    monkeypatch.setattr(fold_items, "MOST_LINKS", most)
    found = links_of_all(spark, keys(spark, *MOVES))
    assert found is not None
    expected = dict.fromkeys("abc", "a") | dict.fromkeys("ef", "e") | dict.fromkeys("gh", "g")
    assert {row[KEY]: row[LINKED] for row in found.collect()} == expected
