"""Which line of Spark is installed, and what stands in for what the older one lacks."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakeward.adapters.spark.session import compatibility as lines
from lakeward.core.errors import SetupError


def installed(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr(lines, "version", lambda _package: version)


@pytest.mark.parametrize(("version", "line"), [("4.1.4", "4.1"), ("3.5.9", "3.5"), ("3.5.6+amzn.1", "3.5")])
def test_the_line_is_that_of_the_installed_spark(monkeypatch: pytest.MonkeyPatch, version: str, line: str) -> None:
    installed(monkeypatch, version)
    assert lines.line() == line


def test_another_spark_is_refused_with_both_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "4.0.1")
    with pytest.raises(SetupError, match=r"no jars for Spark 4\.0") as failed:
        lines.line()
    assert "4.0.1" in str(failed.value.found)
    assert "lakeward[spark-3.5]" in str(failed.value.todo)


def test_where_no_spark_is_installed_it_is_the_default_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_package: str) -> str:
        raise PackageNotFoundError

    monkeypatch.setattr(lines, "version", missing)
    monkeypatch.setattr(lines, "find_spec", lambda _package: None)
    assert lines.line() == lines.LINES[0]


def test_before_spark_4_texts_are_checked_by_decoding_them(monkeypatch: pytest.MonkeyPatch) -> None:
    installed(monkeypatch, "3.5.9")
    assert lines.is_valid_utf8("t") == "encode(decode(CAST(t AS binary), 'UTF-8'), 'UTF-8') = CAST(t AS binary)"
    installed(monkeypatch, "4.1.4")
    assert lines.is_valid_utf8("t") == "is_valid_utf8(t)"


@pytest.mark.spark
def test_no_row_is_lost_behind_batches_without_one(active: SparkSession) -> None:
    """Tables of Arrow that were put together have such."""
    schema = pa.schema([("id", pa.int64())])
    for counts in ([0, 2], [2, 0, 2], [0, 0, 2], [0, 0]):
        parts = [pa.table({"id": list(range(count))}, schema=schema) for count in counts]
        assert lines.from_arrow(active, pa.concat_tables(parts)).count() == sum(counts)
