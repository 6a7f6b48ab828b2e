"""A table fed from a broker in memory. Each process opens its source, and commits are a list."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, NoReturn

from fake_broker import FakeBroker

from lakeward.adapters.sources import kafka
from lakeward.adapters.sources.kafka.landing import Landing
from lakeward.adapters.sources.kafka.offset_ranges import OffsetRange
from lakeward.adapters.sources.kafka.source import KafkaSource
from lakeward.adapters.sources.kafka.staging.transfer import Transfer, TransferForm
from lakeward.adapters.spark.frames.local_frame import LocalFrame
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.ledger.objects import SourceObject
from lakeward.core.ledger.selection import ObjectHistory, ObjectSelection
from lakeward.core.settings.secrets import Secret, SecretName
from lakeward.plugins import Runtime
from lakeward.plugins.testing.feeds import DIMENSION

TOPIC = "shop.shop.orders"


def message(number: int, lsn: int | None = None, table: str = "orders") -> bytes:
    """Return a message of Debezium that inserts a row."""
    place = number if lsn is None else lsn
    source = {"schema": "shop", "table": table, "ts_us": 1_700_000_000_000_000 + place, "lsn": place}
    source["sequence"] = json.dumps([str(place), str(place)])
    return json.dumps({"op": "c", "before": None, "after": {"id": number, "a": "x"}, "source": source}).encode()


def no_spark() -> NoReturn:
    raise AssertionError("a small batch needs no Spark")


def no_secret(name: SecretName) -> NoReturn:
    raise AssertionError(f"{name} is not needed")


@dataclass
class BrokerFeed:
    """A topic and its table. `change` replaces each opened source."""

    folder: Path
    options: Mapping[str, Any] = field(default_factory=dict)
    change: Callable[[KafkaSource], Any] = lambda source: source
    broker: FakeBroker = field(default_factory=FakeBroker)
    objects: list[SourceObject] = field(default_factory=list)
    ids: list[int] = field(default_factory=list)
    rejects: list[str] = field(default_factory=list)
    details: list[str] = field(default_factory=list)
    acked: dict[str, frozenset[str]] = field(default_factory=dict)
    sent: int = 0
    spark: Callable[[], Any] = no_spark
    secret: Callable[[SecretName], Secret] = no_secret
    name: TableName | None = None
    """The name of the table, if it differs from that in the source."""
    lands_ahead: bool = False
    """Whether batches land ahead, while the source that is open applies those before them."""
    landed_ahead: list[OffsetRange] = field(default_factory=list)
    sibling: BrokerFeed | None = None
    """Another table of the same topic. Files are removed once it has applied them too."""

    def open(self) -> Any:
        runtime = Runtime(self.spark, self.folder, state=self.folder / "state", secret=self.secret)
        options = {"servers": "h:9092", "topics": "shop.{schema}.{table}", "formats": {}, **self.options}
        source: KafkaSource = kafka.build(options, runtime)  # type: ignore[assignment]  # a Source, to plugins
        landing = source.landing
        landing.broker = self.broker
        landing.land_in_process = partial(self.land, landing) if self.lands_ahead else None
        return self.change(source)

    def land(
        self, landing: Landing, table: TableName, ranges: Sequence[OffsetRange], size_factor: int | None
    ) -> Sequence[OffsetRange]:
        """Land messages as the process does that lands them ahead."""
        own = landing.options
        transfer = Transfer(own.max_messages, own.max_bytes, own.max_seconds, TransferForm(size_factor=size_factor))
        landed = transfer.run(self.broker, landing.staging, table, ranges)
        self.landed_ahead += landed
        return landed

    @property
    def staged(self) -> Path:
        return self.folder / "state" / "kafka"

    def send(self, partition: int = 0, topic: str = TOPIC) -> int:
        """Send a message with a new number as its key."""
        self.sent += 1
        self.broker.send(topic, message(self.sent), partition=partition)
        return self.sent

    def take(self, source: Any = None, **object_history: Any) -> ObjectSelection:
        """Select the next batch after the commits so far."""
        source = self.open() if source is None else source
        selection: ObjectSelection = source.select_objects(
            self.dimension(source), self.object_history(**object_history)
        )
        return selection

    def dimension(self, source: Any) -> Dimension:
        own_dimension = dimension_of(source)
        return (
            own_dimension
            if self.name is None
            else replace(own_dimension, name=self.name, source_name=own_dimension.name)
        )

    def object_history(self, **more: Any) -> ObjectHistory:
        seen = {item.name: item for item in self.objects}
        return ObjectHistory(
            **{"applied": seen, "acknowledged": self.acked, "has_no_batch": not self.objects, **more}
        )

    def step(self, source: Any = None, *, crashes: bool = False) -> bool:
        """Select, read, commit and finish a batch, unless it crashes before."""
        source = self.open() if source is None else source
        selection = self.take(source)
        if not selection.objects:
            return False
        batch = source.read(self.dimension(source), selection, 1)
        if crashes:
            return True
        if not batch.facts.objects:
            return False
        assert isinstance(batch.frame, LocalFrame)
        for row in batch.frame.rows.to_pylist():
            if row["_lakeward_reason"] is None:
                self.ids.append(row["id"])
            elif row["_lakeward_reason"] != "skipped":
                self.rejects.append(row["_lakeward_text"])
                self.details.append(row["_lakeward_detail"])
        assert len({*self.ids}) == len(self.ids), "a message was applied twice"
        objects = [fact.object for fact in batch.facts.objects]
        self.objects += objects
        sibling_objects = objects if self.sibling is None else self.sibling.objects
        source.archive(self.dimension(source), [item for item in objects if item in sibling_objects])
        return True

    def apply(self, source: Any = None) -> list[int]:
        for _ in range(100):
            if not self.step(source):
                return self.ids
        raise AssertionError("there is no end of it")

    def lose_staging(self) -> None:
        shutil.rmtree(self.staged, ignore_errors=True)


def dimension_of(source: Any) -> Dimension:
    return replace(DIMENSION, lateness=source.lateness, sequences=source.sequences)


def feed(folder: Path, partitions: int = 1, **options: Any) -> BrokerFeed:
    made = BrokerFeed(folder, options)
    if partitions:
        made.broker.create(TOPIC, partitions)
    return made


def end(source: KafkaSource) -> None:
    """Wait until nothing lands ahead for the next batch of a process that ends."""
    source.landing.ahead.discard(DIMENSION.source)


def check_history(own: BrokerFeed, random: Random) -> None:
    """Check that each committed message is applied once, in the order of its partition."""
    own.options = {**own.options, "max_messages": random.choice([1, 3, 100])}
    own.broker.create(TOPIC, random.randint(1, 3))
    partitions: dict[int, list[int]] = {}
    source = own.open()
    for _ in range(30):
        number = random.randrange(len(own.broker.made[TOPIC][1]))
        match random.choice(["send", "send", "send", "abort", "partition", "step", "crash", "lost"]):
            case "send":
                partitions.setdefault(number, []).append(own.send(number))
            case "abort":
                own.broker.abort(TOPIC, number, random.randint(1, 5))
            case "partition" if len(own.broker.made[TOPIC][1]) < 4:
                own.broker.add_partition(TOPIC)
            case "step":
                own.step(source, crashes=random.random() < 0.3)
            case "lost":
                end(source)
                own.lose_staging()
            case _:
                own.step(source, crashes=True)
                end(source)
                source = own.open()
    own.apply(source)
    for sent in partitions.values():
        assert [one for one in own.ids if one in sent] == sent
    assert len(own.ids) == sum(map(len, partitions.values()))
