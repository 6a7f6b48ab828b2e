"""Published feeds of messages, applied to tables through settings and runs, and read back without Spark.

`test_cases_of_messages.py` tests how each feed is decoded. Here are those that show most of a table. Hudi has none,
because its Spark reads no messages.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import outside
import pytest
from cases import CUSTOMERS, GROWN, NESTED, OF_TWO, PRODUCTS, check
from project import Project

pytestmark = pytest.mark.spark

SETTINGS: Final = """
[pipeline]
name = "shop"

[source]
kind = "files"
path = "landing"
folder = ""
{source}

[target]
kind = "{kind}"
warehouse = "lake"

{tables}
"""

DEBEZIUM: Final = 'format = "debezium"\ndecimals = "numeric"'
TYPED: Final = 'format = "debezium"\ntypes = "schema"'
DMS: Final = 'format = "dms-json"\nbefore_image_prefix = "BI_"'


class Step(NamedTuple):
    """A file of a feed, the declared tables when it comes, and the rows of each after it."""

    file: str
    tables: Mapping[str, Mapping[str, str]]
    results: Mapping[str, str]


GROWING: Final = [
    Step(f"step{number}.jsonl", {"test.product": columns}, {"test.product": f"step{number}.csv"})
    for number, columns in enumerate((PRODUCTS, {**PRODUCTS, "age": "int"}, GROWN), 1)
]

TWO: Final = Step(
    "events.jsonl",
    {"mysql_inventory.products": OF_TWO, "mysql_inventory.customers": CUSTOMERS},
    {"mysql_inventory.products": "products.csv", "mysql_inventory.customers": "customers.csv"},
)

FEEDS: Final[Mapping[str, tuple[str, Sequence[Step]]]] = {
    "debezium-json-evolution": (DEBEZIUM, GROWING),
    "debezium-json-two-tables-one-topic": (DEBEZIUM, [TWO]),
    "dms-json-evolution-before-image": (DMS, GROWING),
}

IN_THE_GATE: Final = {
    ("iceberg", "debezium-json-two-tables-one-topic"),
    ("delta", "dms-json-evolution-before-image"),
    ("hudi", "debezium-json-two-tables-one-topic"),
}


def configure(project: Project, source: str, tables: Mapping[str, Mapping[str, str]], more: str = "") -> None:
    """Declare tables with these columns, each with the key `id`."""
    said = "".join(
        f'[tables."{table}"]\nkey = ["id"]\n{more}\n[tables."{table}".columns]\n'
        + "".join(f'{name} = "{type_}"\n' for name, type_ in columns.items())
        for table, columns in tables.items()
    )
    settings = SETTINGS.format(source=source, kind=project.kind, tables=said)
    if project.kind == "hudi":  # there Python takes lines apart within Spark
        settings += "\n[spark]\nsmall_batch = 0\n"
    (project.folder / "lakeward.toml").write_text(settings, "utf-8")


def deliver(project: Project, case: str, file: str) -> None:
    shutil.copy(outside.case(case) / "input" / file, project.folder / "landing")


@pytest.mark.parametrize(
    ("project", "case"),
    [
        pytest.param(
            kind,
            case,
            marks=[
                *([] if (kind, case) in IN_THE_GATE else [pytest.mark.long]),
                *([pytest.mark.hudi] if kind == "hudi" else []),
            ],
        )
        for kind in ("iceberg", "delta", "hudi")
        for case in FEEDS
    ],
    indirect=["project"],
)
def test_published_feeds_give_their_published_tables(project: Project, case: str) -> None:
    """After each file, whose new columns are declared before it. A topic may have two tables."""
    source, steps = FEEDS[case]
    for step in steps:
        deliver(project, case, step.file)
        configure(project, source, step.tables)
        project.run()
        for name, result in step.results.items():
            schema, table = name.split(".")
            assert check(project.folder, schema, table, outside.case(case) / "expected" / result)


every_format = pytest.mark.parametrize("project", ["iceberg", "delta"], indirect=True)


@pytest.mark.long
@every_format
def test_a_table_follows_the_types_of_message_schemas(project: Project) -> None:
    """It adds and widens columns, keeps its type for a narrower one, and stops for a different one."""
    case, narrow = "debezium-json-schema-type-change", 'schema.narrow = "evolve"'
    for number in (1, 2, 3, 4):
        deliver(project, case, f"step{number}.jsonl")
        if number == 4:
            configure(project, TYPED, {"test.product": {}})
            assert "column age was bigint and is int" in project.fails("test.product")
        configure(project, TYPED, {"test.product": {}}, narrow)
        project.run()
        check(project.folder, "test", "product", outside.case(case) / "expected" / f"step{number}.csv")
    deliver(project, case, "step5.jsonl")
    assert "column age was bigint and is string" in project.fails("test.product")
    check(project.folder, "test", "product", outside.case(case) / "expected" / "step4.csv")
    changes = project.call("status", "--schema", "--json").document["schema_changes"]
    assert [(one["kind"], one["column"]) for one in changes] == [
        ("add", "age"),
        ("widen", "age"),
        ("narrow", "age"),
    ]


@pytest.mark.long
@every_format
def test_objects_are_structs_of_a_table_and_a_delete_may_come_first(project: Project) -> None:
    case = "debezium-json-nested-and-delete-first"
    configure(project, DEBEZIUM, {"test.product": NESTED})
    deliver(project, case, "delete_first.jsonl")
    project.run()
    assert project.read("product", "test", ("id",)) == []
    deliver(project, case, "nested.jsonl")
    project.run()
    wanted = json.loads((outside.case(case) / "expected" / "nested.json").read_text("utf-8"))
    assert project.read("product", "test", tuple(wanted)) == [tuple(wanted.values())]
