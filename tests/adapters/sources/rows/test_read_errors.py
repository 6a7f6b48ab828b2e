"""What is said of a file that Spark fails to read."""

from __future__ import annotations

from lakeward.adapters.sources.rows.read_errors import unreadable_file


def test_a_time_beyond_all_years_is_no_broken_file() -> None:
    error = unreadable_file("shop.item", "a.parquet", ArithmeticError("long overflow"))
    assert error.what == "shop.item: a.parquet has a time outside of the years 1 to 9999"
    assert "the file is whole" in str(error.found)


def test_another_failure_has_the_words_of_spark() -> None:
    error = unreadable_file("shop.item", None, ValueError("not a Parquet file\nat line 1"))
    assert (error.what, error.found) == ("shop.item: a file of the batch cannot be read", "not a Parquet file")
