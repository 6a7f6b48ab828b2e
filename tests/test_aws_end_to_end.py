"""A whole pipeline on services of moto: from files of DMS to tables in the Glue catalog.

The deployed parts run: the state machine and the functions of the template, and the packaged script, in a
process with Spark for each run.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from decimal import Decimal
from pathlib import Path
from typing import Any, Protocol

import pytest
from aws_pipeline import PATIENCE, AwsPipeline, JobPackage, Rows, deployed, make_package
from buckets import Buckets
from policies import REGION
from pyiceberg.catalog import load_catalog
from state_machines import StepFunctions, wait_until

pytestmark = pytest.mark.spark

TWELVE = [f"table_{number:02}" for number in range(1, 13)]


class Deploy(Protocol):
    """Deploys a pipeline with tables of a kind."""

    def __call__(self, kind: str, tables: Sequence[str], idle_turns: int | None = None) -> AwsPipeline: ...


@pytest.fixture(scope="module")
def packages(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], JobPackage]:
    """Return a function that packages the job for a table format, once."""
    made: dict[str, JobPackage] = {}

    def package(kind: str) -> JobPackage:
        if kind not in made:
            made[kind] = make_package(tmp_path_factory.mktemp(kind), wheel, kind)
        return made[kind]

    return package


@pytest.fixture
def deploy(
    step_functions: StepFunctions, s3_server: Buckets, packages: Callable[[str], JobPackage], tmp_path: Path
) -> Iterator[Deploy]:
    with ExitStack() as stack:

        def make(kind: str, tables: Sequence[str], idle_turns: int | None = None) -> AwsPipeline:
            one = deployed(step_functions, s3_server, packages(kind), tmp_path, tables, idle_turns)
            return stack.enter_context(one)

        yield make


def rows_of(pipeline: AwsPipeline) -> dict[str, Rows]:
    """Return the rows of all tables, found by the catalog alone."""
    tables = pipeline.aws.client("glue").get_tables(DatabaseName=pipeline.database)["TableList"]
    places = {one["Name"]: one["StorageDescriptor"]["Location"] for one in tables if "__" not in one["Name"]}
    read = {"iceberg": _by_pyiceberg, "delta": _by_delta_rs}[pipeline.package.kind](pipeline, places)
    found = {}
    for name, rows in sorted(read.items()):
        found[name] = {row["id"]: (row["id"], row["name"], row["price"]) for row in rows}
        assert len(found[name]) == len(rows), f"a key of {name} stands twice"
    return found


Read = Mapping[str, Sequence[Mapping[str, Any]]]


def _by_pyiceberg(pipeline: AwsPipeline, places: Mapping[str, str]) -> Read:
    at = pipeline.s3.endpoint
    catalog = load_catalog("of-a-reader", type="glue", **{"s3.endpoint": at, "glue.endpoint": at})
    return {name: catalog.load_table((pipeline.database, name)).scan().to_arrow().to_pylist() for name in places}


def _by_delta_rs(pipeline: AwsPipeline, places: Mapping[str, str]) -> Read:
    """Read in another process: delta-rs blocks all threads while it waits, also the one that serves S3."""
    command = [sys.executable, "-c", READ_DELTA, pipeline.s3.endpoint, REGION, *places.values()]
    read = subprocess.run(command, capture_output=True, text=True, check=True, timeout=PATIENCE).stdout
    cells = [json.loads(line) for line in read.splitlines()]
    return {
        name: [{**row, "price": row["price"] and Decimal(row["price"])} for row in rows]
        for name, rows in zip(places, cells, strict=True)
    }


READ_DELTA = """
import json, sys
import pyarrow as pa
from deltalake import DeltaTable, QueryBuilder

_, endpoint, region, *places = sys.argv
options = {"aws_endpoint": endpoint, "aws_region": region, "aws_allow_http": "true"}
for place in places:
    table = QueryBuilder().register("found", DeltaTable(place, storage_options=options))
    read = pa.table(table.execute("SELECT id, name, price FROM found").read_all()).to_pylist()
    print(json.dumps(read, default=str))
"""
"""Prints the rows of each table as a line of JSON."""


def load_all(pipeline: AwsPipeline) -> str:
    """Run the full load of all tables, and return the execution of the state machine."""
    for feed in pipeline.feeds.values():
        pipeline.deliver(*feed.load("a", "b", "c"))
    execution = pipeline.start()
    assert pipeline.commit_batch() == "SUCCEEDED", pipeline.reason
    assert rows_of(pipeline) == pipeline.expected()
    assert pipeline.waiting() == 0
    return execution


def deliver_changes(pipeline: AwsPipeline, number: int, bad: str | None = None) -> Callable[[], None]:
    """Deliver a file of each table, of a `bad` one only a part. Return a function that delivers it completely."""
    files = {table: feed.change(number) for table, feed in pipeline.feeds.items()}
    pipeline.deliver(*(file for table, file in files.items() if table != bad))
    if bad is None:
        return lambda: None
    pipeline.deliver_part(files[bad])
    return lambda: pipeline.deliver(files[bad])


def fail_of_a_bad_file(pipeline: AwsPipeline, bad: str, times: int) -> None:
    """Deliver a bad file of a table, run so many times, and correct it. The other tables are right at once."""
    before = pipeline.feeds[bad].rows
    repair_row = deliver_changes(pipeline, 1, bad)
    for _ in range(times):
        assert pipeline.commit_batch() == "FAILED"
        assert f"{pipeline.database}.{bad}" in pipeline.reason
        assert rows_of(pipeline) == {**pipeline.expected(), bad: before}
    repair_row()
    assert pipeline.commit_batch() == "SUCCEEDED", pipeline.reason
    assert rows_of(pipeline) == pipeline.expected()
    (message,) = pipeline.people.all()
    assert f"{pipeline.database}.{bad}: " in message
    (message,) = pipeline.operators.all()
    assert f"a run failed. Found: {pipeline.carried_out[1]} is FAILED: " in message


def test_files_of_dms_become_tables_and_a_bad_file_is_reported(deploy: Deploy) -> None:
    """The long test below runs twice with the bad file: it is reported once."""
    pipeline = deploy("iceberg", ["customer", "item", "orders"])
    execution = load_all(pipeline)
    fail_of_a_bad_file(pipeline, "item", times=1)
    wait_until(lambda: pipeline.aws.states(execution)[-3:].count("Idle"))
    assert len(pipeline.carried_out) == 3
    assert [pipeline.waiting(queue) for queue in ("Queue", "DeadLetters")] == [0, 0]


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_twelve_tables_are_right_after_a_bad_file_a_killed_job_and_lost_messages(deploy: Deploy, kind: str) -> None:
    pipeline = deploy(kind, TWELVE, idle_turns=5)
    execution = load_all(pipeline)
    fail_of_a_bad_file(pipeline, TWELVE[4], times=2)

    deliver_changes(pipeline, 2)
    begin = len(pipeline.s3.requests)
    before = rows_of(pipeline)
    assert pipeline.commit_batch(kill=lambda: len(pipeline.committed(begin)) >= 3) == "FAILED"
    after = rows_of(pipeline)
    done = [table for table in TWELVE if after[table] == pipeline.expected()[table]]
    assert 3 <= len(done) < len(TWELVE)
    assert {table: after[table] for table in TWELVE if table not in done}.items() <= before.items()
    wait_until(lambda: len(pipeline.operators.all()) == 2)
    assert f"{pipeline.carried_out[-1]} is FAILED: the driver was ended by signal 9" in pipeline.operators.all()[1]
    wait_until(lambda: not pipeline.has_lease())
    assert pipeline.commit_batch() == "SUCCEEDED", pipeline.reason
    assert rows_of(pipeline) == pipeline.expected()

    idle = []

    def count_idle_turns() -> None:
        idle.append(pipeline.aws.states(execution).count("Idle"))

    def lose() -> None:
        deliver_changes(pipeline, 3)
        assert pipeline.waiting() >= len(TWELVE)
        pipeline.lose_messages()
        count_idle_turns()

    assert pipeline.commit_batch(before_end=lose) == "SUCCEEDED", pipeline.reason
    assert rows_of(pipeline) != pipeline.expected()
    assert pipeline.commit_batch(before_end=count_idle_turns) == "SUCCEEDED", pipeline.reason
    assert idle[1] - idle[0] == 5
    assert rows_of(pipeline) == pipeline.expected()

    assert (len(pipeline.people.all()), len(pipeline.operators.all())) == (1, 2)
    assert pipeline.waiting("DeadLetters") == 0
