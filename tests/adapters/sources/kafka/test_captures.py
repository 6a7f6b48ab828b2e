"""What Debezium really sent, as the broker held it: forms of one workload give the same events.

The gate has the messages in a broker in memory, and the long suite sends them to one that runs.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, TypeAlias
from uuid import UUID

import outside
import pytest
from brokers import RunningBroker
from fake_broker import FakeBroker
from kafka_feeds import no_spark
from registries import StubRegistry, stub_registry

from lakeward.adapters.sources import kafka
from lakeward.adapters.sources.kafka.offset_ranges import parse_transaction_ranges
from lakeward.adapters.sources.kafka.registries.glue import GlueRegistry
from lakeward.adapters.spark.frames.event_frame import SKIPPED
from lakeward.adapters.spark.frames.local_frame import LocalFrame
from lakeward.adapters.spark.sql import names
from lakeward.core.dimension import Dimension, TableName, Within
from lakeward.core.events import Sequences
from lakeward.core.ledger.selection import ObjectHistory
from lakeward.core.schema import Column, Schema, parse_type
from lakeward.core.schema_changes.evolution import Policies, Policy
from lakeward.plugins import Runtime

CASE: Final = "dbz-real-3.6-captures"

_BOTH: Final = "id int, name string, full_name string, email string, balance decimal(12,2), d date, created string"
_LISTS: Final = {
    "public.customers": f"{_BOTH}, ts bigint, t bigint, j string, b binary, tags string, u string, m string, "
    "f float, ok boolean, iv bigint, nn string",
    "public.docs": "id bigint, title string, body string",
    "public.wide": "id int, small string, tz string, tt string, txt string, j string, xml string, inet string, "
    "r string, bits binary",
    "shop.nopk": "a int, b string",
    "shop.customers": f"{_BOTH}, dt bigint, t bigint, j string, b binary, e string, s string, y int, bi bigint, "
    "ti int, bt binary, dbl double, u string",
}
COLUMNS: Final = {
    table: dict(column.split(" ") for column in listed.split(", ")) for table, listed in _LISTS.items()
}

Row = Mapping[str, Any]
Broker: TypeAlias = FakeBroker | RunningBroker


@pytest.fixture(params=["memory", pytest.param("running", marks=pytest.mark.long)])
def broker(request: pytest.FixtureRequest) -> Broker:
    """Return a broker in memory, or one that runs."""
    if request.param == "memory":
        return FakeBroker()
    running: RunningBroker = request.getfixturevalue("kafka_broker")
    return running


def _bytes(text: str | None) -> bytes | None:
    """Return what the broker holds; what is no text is written in hexadecimal."""
    if text is None:
        return None
    return bytes.fromhex(text.removeprefix("HEX:")) if text.startswith("HEX:") else text.encode()


def send(broker: Broker, topic: str) -> None:
    """Make the topic of a capture, with its messages."""
    broker.create(topic)
    for line in (outside.case(CASE) / "input" / f"{topic}.jsonl").read_text("utf-8").splitlines():
        told = json.loads(line)
        key, value = _bytes(told["key"]), _bytes(told["value"])
        headers = [(name, None if text is None else text.encode()) for name, text in told["headers"]]
        millis = told.get("ts", 0)
        if isinstance(broker, FakeBroker):
            broker.send(topic, value, key=key, timestamp=millis, headers=tuple(headers))
        else:
            broker.send(topic, value, key=key, timestamp=millis, headers=headers)


def rows_of(broker: Broker, folder: Path, server: str, table: str, **options: Any) -> Sequence[Row]:
    """Return the rows of a capture, read from a broker that holds it."""
    send(broker, f"{server}.{table}")
    if "transactions" in options:
        send(broker, options["transactions"])
    schema = Schema(tuple(Column(name, parse_type(type_)) for name, type_ in COLUMNS[table].items()))
    name, key = TableName(*table.split(".")), tuple(name for name in COLUMNS[table] if name == "id")
    dimension = Dimension(
        name=name,
        schema=schema,
        key=key,
        lateness=Within(3_600_000_000),
        sequences=Sequences.PLACES,
        policies=Policies(add=Policy.IGNORE),
    )
    servers = broker.servers if isinstance(broker, RunningBroker) else "h:9092"
    said = {"servers": servers, "topics": f"{server}.{{schema}}.{{table}}", "formats": {}, **options}
    source = kafka.make_source(said, Runtime(no_spark, folder, state=folder / server))
    if isinstance(broker, FakeBroker):
        source.landing.broker = broker
    batch = source.read(dimension, source.select_objects(dimension, ObjectHistory()), 1)
    assert isinstance(batch.frame, LocalFrame)
    found: list[Row] = batch.frame.rows.to_pylist()
    return found


def said(rows: Sequence[Row], table: str) -> list[Row]:
    """Return what rows say, whatever their places and their time in the log; tombstones say nothing."""
    told = (*COLUMNS[table], names.OPERATION, names.REASON, names.UNSET, names.OLD)
    return [{name: row[name] for name in told} for row in rows if row[names.REASON] != SKIPPED]


@pytest.mark.parametrize("table", ["public.customers", "public.docs"])
def test_messages_of_postgresql_with_and_without_schemas_agree(broker: Broker, tmp_path: Path, table: str) -> None:
    one, other = (said(rows_of(broker, tmp_path, server, table), table) for server in ("pgj", "pgn"))
    assert one == other
    assert {row[names.OPERATION] for row in one} >= {"read", "insert", "update"}


@pytest.fixture
def registry() -> Iterator[StubRegistry]:
    with stub_registry() as made:
        for file in (outside.case(CASE) / "input").glob("avro-schema-*.json"):
            made.put(int(file.stem.rpartition("-")[2]), file.read_text("utf-8"))
        yield made


@pytest.mark.parametrize("table", ["public.customers", "public.docs"])
@pytest.mark.parametrize("types", ["declared", "schema"])
def test_messages_of_postgresql_in_avro_agree_with_json(
    broker: Broker, tmp_path: Path, registry: StubRegistry, table: str, types: str
) -> None:
    """They are of another run of the same workload, in which the time of a default is another."""
    told: Mapping[str, Any] = {"format": "debezium-avro", "registry": {"url": registry.url}, "types": types}
    one = said(rows_of(broker, tmp_path, "pga", table, **told), table)
    other = said(rows_of(broker, tmp_path, "pgj", table, types=types), table)
    assert [{**row, "created": None} for row in one] == [{**row, "created": None} for row in other]
    assert {row[names.REASON] for row in one} == {None}
    assert len(registry.asked) == len({*registry.asked})


def heads(topic: str, end: int) -> list[str | None]:
    """Return what stands before the values of a capture in Avro, in hexadecimal, up to a byte."""
    lines = (outside.case(CASE) / "input" / f"{topic}.jsonl").read_text("utf-8").splitlines()
    values = [json.loads(line)["value"] for line in lines]
    return [None if value is None else value.removeprefix("HEX:")[: 2 * end] for value in values]


@pytest.mark.parametrize("table", ["public.customers", "public.docs"])
def test_messages_in_avro_of_both_registries_agree(
    broker: Broker, tmp_path: Path, registry: StubRegistry, monkeypatch: pytest.MonkeyPatch, table: str
) -> None:
    """The capture has no schemas of Glue: they are those of the other registry, message by message."""
    pairs = zip(heads(f"pga.{table}", 5), heads(f"pgg.{table}", 18), strict=True)
    ids = {str(UUID(two[4:])): str(int(one, 16)) for one, two in pairs if one is not None and two is not None}
    monkeypatch.setattr(GlueRegistry, "fetch", lambda _, id_, __: registry.answers[ids[id_]][1]["schema"])
    told: Mapping[str, Any] = {"format": "debezium-avro"}
    one = said(rows_of(broker, tmp_path, "pga", table, registry={"url": registry.url}, **told), table)
    other = said(rows_of(broker, tmp_path, "pgg", table, registry={"kind": "glue"}, **told), table)
    assert [{**row, "created": None} for row in one] == [{**row, "created": None} for row in other]


@pytest.mark.parametrize(
    ("server", "table"),
    [
        *[("pgj", "public.customers"), ("pgn", "public.docs"), ("pga", "public.customers")],
        *[("my", "shop.customers"), ("myj", "shop.customers")],
    ],
)
def test_messages_and_transactions_agree(
    broker: Broker, tmp_path: Path, registry: StubRegistry, server: str, table: str
) -> None:
    """All of them are whole: no change waits for the END of its transaction, in JSON and in Avro."""
    is_avro = server == "pga"
    told = {"format": "debezium-avro", "registry": {"url": registry.url}} if is_avro else {}
    topic = f"{server}.transaction"
    found = rows_of(broker, tmp_path, server, table, **told, transactions=topic)
    assert said(found, table) == said(rows_of(broker, tmp_path / "plain", server, table, **told), table)
    (place,) = parse_transaction_ranges(file.name for file in (tmp_path / server).rglob("~*"))
    assert (place.start, place.end) == (0, len(heads(topic, 1)))


def test_messages_of_mariadb_with_and_without_schemas_agree(broker: Broker, tmp_path: Path) -> None:
    table = "shop.customers"
    one, other = (said(rows_of(broker, tmp_path, server, table), table) for server in ("myj", "my"))
    assert one == other


def test_messages_of_postgresql_that_were_flattened_agree(broker: Broker, tmp_path: Path) -> None:
    table = "public.customers"
    one = said(rows_of(broker, tmp_path, "pgn", table), table)
    other = said(rows_of(broker, tmp_path, "pgf", table, form="flattened"), table)
    assert other == one


def test_messages_of_mariadb_without_a_key_agree(broker: Broker, tmp_path: Path) -> None:
    table = "shop.nopk"
    one, other = (said(rows_of(broker, tmp_path, server, table), table) for server in ("myj", "my"))
    assert one == other
    assert [row[names.OPERATION] for row in one] == ["read", "update", "delete", "insert", "truncate"]


def test_extreme_values_agree_and_changes_may_come_twice(broker: Broker, tmp_path: Path) -> None:
    """The worker of the first was killed and sent five rows again."""
    table = "public.wide"
    one, other = (said(rows_of(broker, tmp_path, server, table), table) for server in ("pgt", "pgs"))
    assert [row["id"] for row in one] == [1, 1, 1, 1, *range(10, 15), *range(10, 18)]
    assert [*one[:9], *one[14:]] == other
    assert one[4:9] == one[9:14]
