"""Places in the logs of databases, as numbers that sort as they do."""

from __future__ import annotations

import json

import pytest
from pyspark.sql import SparkSession

from lakeward.adapters.sources.messages.log_positions import last_commit, sequence
from lakeward.adapters.sources.messages.message import CELLS, cell
from lakeward.adapters.spark.sql.names import text


@pytest.mark.spark
def test_a_second_snapshot_of_postgresql_is_newer_than_what_was_streamed_before(spark: SparkSession) -> None:
    """At a snapshot, and in the first transaction behind it, the last commit is not known."""
    lsns = [(None, 100), (None, 110), (112, 105), (112, 120), (None, 900), (None, 910), (915, 912)]
    sources = [{"lsn": str(lsn), "sequence": json.dumps([last and str(last), str(lsn)])} for last, lsn in lsns]
    rows = ", ".join(f"({place}, {text(json.dumps(source))})" for place, source in enumerate(sources))
    read = f"SELECT place, from_json(source, {text(CELLS)}) AS source FROM VALUES {rows} AS t(place, source)"

    def field(name: str) -> str:
        return cell("source", name)

    number = sequence(field, "false", last_commit(field))
    found = spark.sql(f"SELECT place FROM ({read}) ORDER BY CAST({number} AS decimal(38,0))").collect()
    assert [lsns[place] for (place,) in found] == lsns
