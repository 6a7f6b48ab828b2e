"""Cases of messages that others wrote, through a broker that runs; the gate reads them from files.

Which cases those are is said in `docs/reference/cases.md`; `tests/test_cases_of_messages.py` reads the same files.
"""

from __future__ import annotations

import re
from functools import partial
from pathlib import Path
from typing import Any

import outside
import pytest
from brokers import RunningBroker
from fed import differences, expected, read_whole, session
from message_cases import FEEDS

from lakeward.adapters.sources import kafka
from lakeward.core.dimension import ORDERED, Dimension, TableName
from lakeward.core.events import Sequences
from lakeward.core.schema import Column, Schema, parse_type
from lakeward.plugins import Runtime

EACH = [(table, columns, options, feed) for table, columns, options, feeds in FEEDS for feed in feeds]


@pytest.mark.long
@pytest.mark.parametrize(("table", "columns", "options", "feed"), EACH)
def test_a_case_that_comes_through_a_broker_gives_the_table_that_it_had(
    tmp_path: Path,
    kafka_broker: RunningBroker,
    table: str,
    columns: dict[str, str],
    options: dict[str, Any],
    feed: tuple[str, str, str],
) -> None:
    case, pattern, result = feed
    folder, topic = outside.case(case), f"cases.{table}"
    start = folder / "input"
    files = [file for file in start.rglob("*.jsonl") if re.fullmatch(pattern, str(file.relative_to(start)))]
    kafka_broker.create(topic)
    for file in sorted(files, key=lambda file: file.name):
        kafka_broker.send(topic, *file.read_bytes().splitlines())
    schema = Schema(tuple(Column(name, parse_type(type_)) for name, type_ in columns.items()))
    name = TableName(*table.split("."))
    dimension = Dimension(name=name, schema=schema, key=("id",), lateness=ORDERED, sequences=Sequences.PLACES)
    said = {"servers": kafka_broker.servers, "topics": "cases.{schema}.{table}", "formats": {}, **options}
    source = kafka.build(said, Runtime(partial(session, None), tmp_path, state=tmp_path / "state"))
    found = read_whole(source, dimension)
    assert found.events
    assert not differences(found.rows, expected(folder / "expected" / result))
