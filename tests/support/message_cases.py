"""Published cases of messages: their tables, settings, files, and expected results."""

from __future__ import annotations

from typing import Any, Final

from cases import CUSTOMERS, GROWN, NESTED, OF_TWO, PRODUCTS

DEBEZIUM: Final = {"format": "debezium", "decimals": "numeric"}
DMS: Final = {"format": "dms-json", "before_image_prefix": "BI_"}

STEPS: Final = [("step1.jsonl", "step1.csv"), ("step[12].jsonl", "step2.csv"), ("step[123].jsonl", "step3.csv")]

ONE: Final = [
    ("debezium-json-mysql-products", "events.jsonl", "final.csv"),
    ("debezium-json-pg-replica-full", "events.jsonl", "final.csv"),
    ("debezium-json-pg-replica-default", "events.jsonl", "upserts.csv"),
    ("debezium-json-payload-wrapper", "plain.jsonl", "final.csv"),
    ("debezium-json-payload-wrapper", "wrapped.jsonl", "final.csv"),
]
EVOLVED: Final = [("dms-json-evolution-before-image", *step) for step in STEPS]


def _of_two(result: str) -> list[tuple[str, str, str]]:
    return [("debezium-json-two-tables-one-topic", f"events{f}.jsonl", result) for f in ("", "_with_schema")]


def _of_many(table: str) -> list[tuple[str, str, str]]:
    return [
        ("dms-json-multi-table", f"topic./step{n}.jsonl", f"{table}_step{m}.csv") for n, m in ((1, 1), (".", 2))
    ]


FEEDS: Final[list[tuple[str, dict[str, str], dict[str, Any], list[tuple[str, str, str]]]]] = [
    ("inventory.products", PRODUCTS, DEBEZIUM, ONE),
    ("test.product", NESTED, DEBEZIUM, [("debezium-json-evolution", *step) for step in STEPS]),
    ("mysql_inventory.products", OF_TWO, DEBEZIUM, _of_two("products.csv")),
    ("test.product", GROWN, DMS, [*EVOLVED, ("dms-json-null-field", "events.jsonl", "final.csv")]),
    ("mysql_inventory.customers", CUSTOMERS, DEBEZIUM, _of_two("customers.csv")),
    ("test.t1", GROWN, DEBEZIUM, [("debezium-json-multi-table-evolution", "topic0/.*", "t1_step2.csv")]),
    *[(f"paimon_sync_database.{table}", GROWN, DMS, _of_many(table)) for table in ("t1", "t2")],
]
"""For each table its columns, the settings of its messages, and cases: case, pattern of its files, result."""
