"""Documents of MongoDB that others wrote, through a broker: keys and values as Debezium's connector sends them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import outside
import pytest
from brokers import RunningBroker
from fake_broker import FakeBroker
from feed_reader import read_whole
from kafka_feeds import feed, no_secret

from lakeward.adapters.sources.kafka.client import KafkaBroker
from lakeward.adapters.sources.kafka.options import KafkaOptions
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.core.ledger.selection import ObjectHistory
from lakeward.core.schema import Column, Schema, parse_type

pytestmark = pytest.mark.usefixtures("no_broker")

NAME: Final = TableName("bigdata_test", "sync_test_table")
TOPIC: Final = "shop.bigdata_test.sync_test_table"
COLUMNS: Final = {
    "_id": "string",
    "created_at": "bigint",
    "created_by": "string",
    "tags": "list<string>",
    "updated_at": "timestamp",
}


@pytest.fixture(params=["memory", pytest.param("running", marks=pytest.mark.long)])
def broker(request: pytest.FixtureRequest) -> FakeBroker | RunningBroker:
    """Return a broker in memory, or one that runs."""
    if request.param == "memory":
        return FakeBroker()
    running: RunningBroker = request.getfixturevalue("kafka_broker")
    return running


def client_of(broker: RunningBroker) -> KafkaBroker:
    options = KafkaOptions(servers=broker.servers, topics="shop.{schema}.{table}")
    return KafkaBroker(options, Path(), no_secret)


def schema_of(columns: Mapping[str, str]) -> Schema:
    return Schema(tuple(Column(name, parse_type(type_)) for name, type_ in columns.items()))


@pytest.mark.parametrize(("events", "tags"), [(["insert"], ["pending"]), (["insert", "update"], ["succeed"])])
def test_the_case_gives_the_row_that_it_had(
    broker: FakeBroker | RunningBroker, tmp_path: Path, events: list[str], tags: list[str]
) -> None:
    own = feed(tmp_path, partitions=0, documents="columns")
    broker.create(TOPIC, 1)
    for event in [*events, "delete", *events]:
        file = outside.case("debezium-mongodb-events") / "input" / f"event-{event}.jsonl"
        lines = [line for line in file.read_bytes().splitlines() if line]
        for key, value in zip(lines[::2], lines[1::2], strict=True):
            broker.send(TOPIC, value, key=key)
    source = own.open()
    source.landing.broker = broker if isinstance(broker, FakeBroker) else client_of(broker)
    dimension = replace(own.dimension(source), name=NAME, schema=schema_of(COLUMNS), key=("_id",))
    found = read_whole(source, dimension)
    assert found.rejects == []
    assert [row["tags"] for row in found.rows.values()] == [tags]


@pytest.mark.parametrize(
    ("documents", "key", "columns", "words"),
    [
        ("columns", "id", {"id": "bigint"}, "needs the key _id"),
        ("document", "_id", {"_id": "string", "name": "string"}, "fills the columns _id and document alone"),
        ("document", "_id", {"_id": "string", "document": "bigint"}, "fills the columns _id and document alone"),
    ],
)
def test_a_table_of_documents_has_their_key_and_columns(
    tmp_path: Path, documents: str, key: str, columns: Mapping[str, str], words: str
) -> None:
    own = feed(tmp_path, documents=documents)
    source = own.open()
    with pytest.raises(ConfigError, match=words):
        source.select_objects(
            replace(own.dimension(source), schema=schema_of(columns), key=(key,)), ObjectHistory()
        )
