"""Messages of a shop, through a running broker and commands, become tables."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
from brokers import RunningBroker
from law_sets import on_each_line
from project import Project, iceberg_and_delta

from lakeward.adapters.sources.kafka.source import KafkaSource

pytestmark = pytest.mark.spark

TABLES = """
[tables."shop.customer"]
key = ["id"]
columns = { id = "int", name = "string", price = "decimal(8,2)" }

[tables."shop.orders"]
key = ["id"]
columns = { id = "int", name = "string", price = "decimal(8,2)" }
"""

SOURCE = """
servers = "{servers}"
topics = "{prefix}.{{schema}}.{{table}}"
group = "lakeward.{{table}}"
decimals = "string"
"""

Row = Mapping[str, Any]


class Shop:
    """Two tables of a database. A connector sends their changes in transactions."""

    def __init__(self, broker: RunningBroker, prefix: str) -> None:
        self.broker, self.prefix, self.lsn = broker, prefix, 0
        self.rows: dict[str, dict[int, Row]] = {"customer": {}, "orders": {}}
        self.producer = broker.producer(**{"transactional.id": prefix})
        self.producer.init_transactions(20)
        for table in self.rows:
            broker.create(f"{prefix}.shop.{table}", partitions=2)

    def write(self, table: str, key: int, name: str | None) -> None:
        """Change a row, or without a name delete it."""
        self.lsn += 1
        before = self.rows[table].pop(key, None)
        after = None if name is None else {"id": key, "name": name, "price": f"{self.lsn}.10"}
        if after is not None:
            self.rows[table][key] = after
        operation = "d" if after is None else "c" if before is None else "u"
        place = {"lsn": self.lsn, "sequence": json.dumps([str(self.lsn), str(self.lsn)])}
        source = {"schema": "shop", "table": table, "ts_ms": 1_796_000_000_000 + self.lsn, **place}
        self._send(table, key, {"op": operation, "before": before, "after": after, "source": source})
        if after is None:
            self._send(table, key, None)

    def _send(self, table: str, key: int, message: Row | None, topic: str | None = None) -> None:
        value = None if message is None else json.dumps(message)
        named = topic or f"{self.prefix}.shop.{table}"
        self.producer.produce(named, value, key=json.dumps({"id": key}), partition=key % 2)

    def transaction(self, *changes: tuple[str, int, str | None], aborts: bool = False) -> None:
        self.producer.begin_transaction()
        kept, lsn = {name: dict(rows) for name, rows in self.rows.items()}, self.lsn
        for change in changes:
            self.write(*change)
        self.producer.flush(10)
        if aborts:
            self.producer.abort_transaction(10)
            self.rows, self.lsn = kept, lsn
        else:
            self.producer.commit_transaction(10)

    def equals(self, project: Project) -> bool:
        return all(
            [(one[0], one[1], str(one[2])) for one in project.rows(table)]
            == [(key, row["name"], row["price"]) for key, row in sorted(rows.items())]
            for table, rows in self.rows.items()
        )


@on_each_line
@iceberg_and_delta
def test_a_shop_comes_exact_through_a_broker(
    project: Project, kafka_broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefix = f"exact-{project.kind}"
    shop, source = Shop(kafka_broker, prefix), SOURCE.format(servers=kafka_broker.servers, prefix=prefix)
    project.configure(TABLES, source, source_kind="kafka")
    shop.transaction(*[("customer", key, "a") for key in range(6)], ("orders", 1, "x"))
    shop.transaction(("customer", 1, "never"), aborts=True)
    shop.transaction(("customer", 2, None), ("customer", 3, "b"), ("customer", 2, "again"), ("orders", 2, "y"))
    shop.transaction(("customer", 4, None))

    # The process ends between the landing of the messages and the commit.
    def end(*_: object) -> None:
        raise MemoryError

    with monkeypatch.context() as patched:
        patched.setattr(KafkaSource, "read", end)
        assert project.call("run", "--once").code == 4
    staged = sorted(file.name for file in (project.folder / "landing").rglob(f"{prefix}*.json"))
    assert len(staged) == 4
    assert kafka_broker.committed_offsets("lakeward.customer", f"{prefix}.shop.customer") == {}
    shop.transaction(("customer", 7, "behind"), ("orders", 1, None))

    ran = project.run()
    assert {name: one["counts"]["read"] > 0 for name, one in ran.items()} == dict.fromkeys(ran, True), ran
    found = ran["shop.customer"]["counts"]
    assert (found["skipped"], found["quarantined"]) == (2, 0)  # tombstones
    assert shop.equals(project)
    for table in project.call("status", "--json").document["tables"]:
        assert table["messages_waiting"] == 0
    assert kafka_broker.committed_offsets("lakeward.orders", f"{prefix}.shop.orders").keys() == {0, 1}
    assert not list((project.folder / "landing").rglob(f"{prefix}*.json"))

    # After a rollback the broker still has the messages, and they are applied again.
    versions = project.call("rollback", "shop.customer", "--json").document["versions"]
    back = ("rollback", "shop.customer", "--to", versions[-1]["name"], "--json")
    assert project.call(*back, "--dry-run").document["done"] is False
    assert shop.equals(project)
    assert project.call(*back, "--yes").document["batches"] >= 1
    assert not shop.equals(project)
    project.run()
    assert shop.equals(project)

    # Spark reads the same files for a large batch. A message that is no JSON waits for an operator.
    project.configure(f"{TABLES}\n[spark]\nsmall_batch = 0", source, source_kind="kafka")
    shop.transaction(("customer", 1, None), ("customer", 8, "é \u2028 \u0000"), ("customer", 3, "c"))
    assert project.run()["shop.customer"]["counts"]["skipped"] == 1
    assert shop.equals(project)
    kafka_broker.send(f"{prefix}.shop.orders", b"\xff{", key=b'{"id":9}', partition=1)
    ended = project.call("run", "--once", "--json")
    assert project.entries(), ended
    (entry,) = project.entries()
    assert "no UTF-8, in hexadecimal: ff7b" in json.dumps(entry)
