"""What a run registers of its tables, and what becomes of a registration that fails."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from dependency_injector import providers
from hiding_queue import HidingQueue
from structlog.testing import capture_logs

from lakeward.adapters.memory import MemoryLedger, MemorySource, MemoryTarget
from lakeward.adapters.queues.poll import Poll
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import ConfigError, StoreUnreachable
from lakeward.core.events import ChangeEvent, Operation, Position
from lakeward.core.ledger.selection import Limits, ObjectHistory, ObjectSelection
from lakeward.core.ports import DescribedColumn, Notice, TableDescription
from lakeward.core.schema import Schema, parse_type
from lakeward.core.settings.source_catalogue import Answer, CatalogueAnswers, SourceColumn, SourceTable
from lakeward.entrypoints.commands.run import exit_code
from lakeward.entrypoints.container import Container
from lakeward.entrypoints.runtime.follower import NoticeReceiver
from lakeward.entrypoints.runtime.join_run import JoinScheduler
from lakeward.entrypoints.runtime.pipeline_run import run_tables
from lakeward.entrypoints.runtime.registration import Registrar
from lakeward.entrypoints.runtime.stop_signal import Stop
from lakeward.entrypoints.runtime.table_run import TableRun
from lakeward.entrypoints.settings.configuration import Configuration, validate
from lakeward.plugins.manager import load

ORDERS = TableName("shop", "orders")
MINUTE = 60_000_000


class Lake(MemoryTarget):
    """A lake in memory that says of its tables where they would be."""

    quarantined = True

    def identify(self, table: TableName) -> tuple[str, str]:
        return table

    def describe(self, table: TableName, *, quarantine: bool = False) -> TableDescription | None:
        found = self.table_state(Dimension(name=table, schema=Schema(()), key=("id",))).schema
        if found is None or (quarantine and not self.quarantined):
            return None
        name = f"{table.table}__quarantine" if quarantine else table.table
        columns = tuple(DescribedColumn(name=column.name, type=column.type) for column in found)
        return TableDescription(
            namespace=table.schema, name=name, format="memory", location=f"s3://lake/{name}", columns=columns
        )


@dataclass
class Catalog:
    """Keeps what is registered; while there is an `error`, it is raised."""

    registered: list[TableDescription] = field(default_factory=list)
    error: Exception | None = None

    def check(self, tables: Sequence[tuple[str, str]]) -> None: ...

    def register(self, table: TableDescription) -> None:
        if self.error is not None:
            raise self.error
        self.registered.append(table)


@dataclass
class Pipeline:
    """A pipeline whose runs are processes of their own, with a lake and a catalog that outlive them."""

    folder: Path
    lake: Lake = field(default_factory=Lake)
    source: MemorySource = field(default_factory=lambda: MemorySource(Limits(files=1)))
    catalog: Catalog = field(default_factory=Catalog)
    queue: Any = field(default_factory=lambda: Poll(["shop.orders"]))
    now: int = 10**15

    def deliver(self, order: int) -> None:
        position = Position(1, order, order, 1)
        event = ChangeEvent(operation=Operation.UPDATE, position=position, key=(order,), cells={"id": order})
        self.source.put(ORDERS, order, [event])

    def configured(self, **registration: Any) -> Configuration:
        content = {
            "pipeline": {"name": "shop", "parallel": 1},
            "source": {"kind": "memory"},
            "target": {"kind": "memory"},
            "registration": {"kind": "glue", **registration},
            "tables": {"shop.orders": {"key": ["id"], "columns": {"id": "int"}}},
        }
        return validate(content, self.folder / "lakeward.toml")

    def container(self, **registration: Any) -> Any:
        container = Container(configured=self.configured(**registration))
        container.manager.override(providers.Object(load(entry_points=False)))
        kept = {"source": self.source, "target": self.lake, "queue": self.queue, "registration": self.catalog}
        for name, value in kept.items():
            getattr(container, name).override(providers.Object(value))
        container.ledger.override(providers.Object(MemoryLedger()))
        container.runtime().now = lambda: self.now
        return container

    def run(self, **registration: Any) -> list[TableRun]:
        observer: Any = SimpleNamespace(step=lambda *_: None, batch=lambda *_: None, done=lambda *_: None)
        container = self.container(**registration)
        with ThreadPoolExecutor(1) as pool:
            return run_tables(container, [ORDERS], observer, Stop(print), pool)


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    found = Pipeline(tmp_path)
    found.deliver(1)
    return found


def test_a_table_is_registered_behind_its_first_batch_and_once_where_nothing_changes(pipeline: Pipeline) -> None:
    pipeline.deliver(2)
    (run,) = pipeline.run()
    assert (run.batches, run.alarms) == (2, ())
    (told,) = pipeline.catalog.registered
    assert (told.identifier, [column.name for column in told.columns]) == (("shop", "orders"), ["id"])
    (run,) = pipeline.run()
    assert (run.batches, len(pipeline.catalog.registered)) == (0, 2), "a crash may have left it out"


ACCESS_DENIED = ConfigError("shop.orders may not be written", found="AccessDenied", todo="Allow it.")


@pytest.mark.parametrize(
    ("error", "what", "found", "todo"),
    [
        (ACCESS_DENIED, "shop.orders may not be written", "AccessDenied", "Allow it."),
        (KeyError("password=hunter2"), "this failed; the log of the run says more", "KeyError", ""),
    ],
)
def test_a_registration_that_fails_is_an_alarm_and_tried_again(
    pipeline: Pipeline, error: Exception, what: str, found: str, todo: str
) -> None:
    pipeline.catalog.error = error
    with capture_logs() as logged:
        (run,) = pipeline.run()
    (alarm,) = run.alarms
    assert (run.batches, run.error, exit_code([run])) == (1, None, 3)
    assert (alarm.code, alarm.found) == ("CATALOG-001", found)
    assert alarm.what == f"shop.orders is not registered as it is: {what}"
    assert str(alarm.todo).startswith(todo)
    assert str(alarm.todo).endswith("The rows are applied, and the next run tries again.")
    logs = [one["error"] for one in logged if one["event"] == "not registered"]
    assert logs == (["KeyError('password=hunter2')"] if isinstance(error, KeyError) else logs)
    inbox: Any = SimpleNamespace(receive=list, answers=True)
    looks: Any = SimpleNamespace(now=lambda: 0, is_due=False)
    assert NoticeReceiver(inbox, looks, {"shop.orders": run})() == [Notice("shop.orders")], (
        "who follows looks again"
    )
    pipeline.catalog.error = None
    (run,) = pipeline.run()
    assert (run.batches, run.alarms, exit_code([run]), len(pipeline.catalog.registered)) == (0, (), 0, 1)


class Gone(MemorySource):
    def select_objects(self, dimension: Dimension, object_history: ObjectHistory) -> ObjectSelection:
        raise StoreUnreachable("gone")


def test_a_table_that_failed_is_not_registered(pipeline: Pipeline) -> None:
    pipeline.run()
    pipeline.catalog.registered.clear()
    pipeline.source = Gone(Limits())
    (run,) = pipeline.run()
    assert run.error is not None
    assert pipeline.catalog.registered == []


def test_the_next_run_looks_at_it_whatever_the_queue_tells(pipeline: Pipeline) -> None:
    pipeline.queue = HidingQueue([])
    pipeline.run()
    assert pipeline.run() == [], "all were looked at an instant ago"
    pipeline.queue = HidingQueue([Notice("shop.orders", "1")])
    pipeline.catalog.error = StoreUnreachable("Glue does not answer")
    pipeline.run()
    pipeline.queue, pipeline.catalog.error = HidingQueue([]), None
    (run,) = pipeline.run()
    assert run.alarms == ()


def test_a_crash_before_the_registration_is_healed_by_the_next_run(pipeline: Pipeline) -> None:
    pipeline.queue = HidingQueue([])
    pipeline.run()
    pipeline.queue = HidingQueue([Notice("shop.orders", "1")])
    pipeline.deliver(2)
    pipeline.catalog.error = KeyboardInterrupt()  # type: ignore[assignment]
    with pytest.raises(KeyboardInterrupt):
        pipeline.run()
    pipeline.queue, pipeline.catalog.error = HidingQueue([]), None
    pipeline.catalog.registered.clear()
    pipeline.run()
    assert len(pipeline.catalog.registered) == 1


def test_who_follows_tries_again_after_a_minute(pipeline: Pipeline) -> None:
    pipeline.run()
    registrar = Registrar(pipeline.container())
    pipeline.catalog.error = StoreUnreachable("Glue does not answer")
    (first,) = registrar(ORDERS, 1)
    pipeline.catalog.error, before = None, len(pipeline.catalog.registered)
    assert registrar(ORDERS, 1) == (first,)
    pipeline.now += MINUTE
    assert registrar(ORDERS, 1) == ()
    assert registrar(ORDERS, 1) == ()
    assert len(pipeline.catalog.registered) == before + 1


def test_a_quarantine_is_registered_where_the_settings_say_so(pipeline: Pipeline) -> None:
    pipeline.run(quarantine=True)
    assert [one.name for one in pipeline.catalog.registered] == ["orders", "orders__quarantine"]
    pipeline.lake.quarantined = False
    pipeline.catalog.registered.clear()
    pipeline.run(quarantine=True)
    assert [one.name for one in pipeline.catalog.registered] == ["orders"]


def test_a_joined_table_is_registered_as_well(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline.run()
    pipeline.catalog.registered.clear()
    join_scheduler = JoinScheduler(pipeline.container(), [ORDERS], Stop(print))
    monkeypatch.setattr(JoinScheduler, "_refresh", lambda *_: None)
    join_scheduler.refresh(ORDERS)
    assert (len(pipeline.catalog.registered), join_scheduler.runs[ORDERS].alarms) == (1, ())
    pipeline.catalog.error = StoreUnreachable("Glue does not answer")
    failed = JoinScheduler(pipeline.container(), [ORDERS], Stop(print))
    failed.refresh(ORDERS)
    (alarm,) = failed.runs[ORDERS].alarms
    assert (alarm.code, exit_code([], [*failed.runs.values()])) == ("CATALOG-001", 3)


def test_a_joined_table_that_is_not_registered_is_due_again_after_a_minute(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.run()
    container = pipeline.container()
    monkeypatch.setattr(Configuration, "sources_of", lambda *_: ())
    monkeypatch.setattr(JoinScheduler, "_refresh", lambda *_: None)
    join_scheduler = JoinScheduler(container, [ORDERS], Stop(print))
    assert join_scheduler.due_tables({}) == [ORDERS]
    pipeline.catalog.error = StoreUnreachable("Glue does not answer")
    join_scheduler.refresh(ORDERS)
    assert join_scheduler.due_tables({}) == []
    pipeline.now += MINUTE
    assert join_scheduler.due_tables({}) == [ORDERS]
    pipeline.catalog.error = None
    join_scheduler.refresh(ORDERS)
    pipeline.now += MINUTE
    assert (join_scheduler.due_tables({}), join_scheduler.runs[ORDERS].alarms) == ([], ())


def test_columns_have_the_comments_of_their_source(pipeline: Pipeline) -> None:
    pipeline.run()
    content = pipeline.configured().content
    rules = [{"rule": "rename", "column": "id", "to": "order_id"}, {"rule": "constant", "to": "x", "value": 1}]
    table = {"key": ["order_id"], "rules": rules}
    catalogue = {"kind": "file", "path": "columns.json"}
    asked = validate({**content, "catalogue": catalogue, "tables": {"shop.orders": table}}, pipeline.folder / "a")
    columns = (SourceColumn(name="id", written="int", type=parse_type("int"), comment="the key"),)
    answer = Answer(0, SourceTable(name=ORDERS, columns=columns, key=("id",), comment="what customers order"))
    comments = ("what customers order", {"order_id": "the key"})
    assert asked.with_answers(CatalogueAnswers(answers={ORDERS: [answer]})).comments(ORDERS) == comments
    assert asked.comments(ORDERS) == (None, {})


REGISTERED_AS_ONE = {
    "target": {"kind": "delta", "warehouse": "lake", "namespace": "{schema}"},
    "registration": {"kind": "glue", "database": "lake"},
    "tables": {f"{schema}.orders": {"key": ["id"]} for schema in ("shop", "sales")},
}


@pytest.mark.parametrize(
    ("changes", "said"),
    [({}, "cannot be registered"), (REGISTERED_AS_ONE, "would be one table in the Glue Data Catalog")],
)
def test_a_lake_without_places_and_tables_that_would_be_one_are_refused_before_anything_is_read(
    pipeline: Pipeline, changes: dict[str, Any], said: str
) -> None:
    content = {**pipeline.configured().content, **changes}
    container = Container(configured=validate(content, pipeline.folder / "lakeward.toml"))
    container.manager.override(providers.Object(load(entry_points=False)))
    with pytest.raises(ConfigError, match=said):
        container.registration()


class RawSource(MemorySource):
    """A source in memory that says where its files would be."""

    def identify_raw(self, table: TableName, namespace: str) -> Sequence[tuple[str, str]]:
        return [(namespace, table.table)]

    def describe_raw(self, dimension: Dimension, namespace: str) -> Sequence[TableDescription]:
        columns = tuple(DescribedColumn(name=column.name, type=column.type) for column in dimension.schema)
        return [
            TableDescription(
                namespace=namespace,
                name=dimension.source.table,
                format="csv",
                location="s3://landing/shop/orders",
                columns=columns,
                is_raw=True,
            )
        ]


def test_the_files_of_a_table_are_registered_behind_it(pipeline: Pipeline) -> None:
    pipeline.source = RawSource(Limits(files=1))
    pipeline.deliver(1)
    pipeline.run(raw="{schema}_raw")
    assert [one.identifier for one in pipeline.catalog.registered] == [("shop", "orders"), ("shop_raw", "orders")]


class LaterSource(RawSource):
    """Its files are not there at first."""

    folders: Sequence[str] = ()

    def describe_raw(self, dimension: Dimension, namespace: str) -> Sequence[TableDescription]:
        (found,) = super().describe_raw(dimension, namespace)
        return [replace(found, name=name) for name in self.folders]


def test_folders_that_appear_later_are_registered_by_who_follows(pipeline: Pipeline) -> None:
    source = LaterSource(Limits(files=1))
    pipeline.source = source
    pipeline.deliver(1)
    pipeline.run(raw="{schema}_raw")
    pipeline.catalog.registered.clear()
    registrar = Registrar(pipeline.container(raw="{schema}_raw"))
    for batch, folders in ((1, ()), (2, ("orders",)), (3, ("orders", "orders__load")), (4, ("orders",))):
        source.folders = folders
        assert registrar(ORDERS, batch) == ()
    registered = [".".join(one.identifier) for one in pipeline.catalog.registered]
    assert registered == ["shop.orders", "shop_raw.orders", "shop_raw.orders__load"]


@pytest.mark.parametrize(
    ("source", "raw", "said"),
    [
        (MemorySource, "raw", "files of the source 'memory' cannot be registered"),
        (RawSource, "{schema}", r"shop\.orders would be a table of the lake and the files"),
    ],
)
def test_files_that_nobody_can_describe_or_that_would_be_tables_are_refused(
    pipeline: Pipeline, source: type[MemorySource], raw: str, said: str
) -> None:
    pipeline.source = source(Limits(files=1))
    container = pipeline.container(raw=raw)
    container.registration.reset_override()
    with pytest.raises(ConfigError, match=said):
        container.registration()
