"""Adoption: a table of another job is checked, adopted, and continued after the last file of that job."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import deltalake
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from mutations import Break, Method, broken, patched, wrapped
from project import ITEM, Project
from pyiceberg.catalog import load_catalog
from pyiceberg.schema import Schema
from pyiceberg.types import DecimalType, IntegerType, NestedField, StringType
from pyspark.sql import SparkSession
from resolution_switches import use_spark_in_commands

from lakeward.adapters.formats.delta.metadata.clustering import clustered_by
from lakeward.adapters.formats.delta.operations.adoption import DeltaExternalTable
from lakeward.adapters.formats.hudi.metadata.timeline import Timeline
from lakeward.adapters.formats.hudi.operations.adoption import HudiExternalTable
from lakeward.adapters.formats.iceberg.operations.adoption import IcebergExternalTable
from lakeward.adapters.formats.shared.change_log.batch_log import BatchLog
from lakeward.adapters.formats.shared.operations import adoption
from lakeward.adapters.formats.shared.operations.adoption import TableAdoption
from lakeward.adapters.formats.shared.rows import system_columns, table_rows
from lakeward.adapters.formats.shared.rows.table_rows import Rows
from lakeward.adapters.formats.shared.storage.folder import DiskFolder
from lakeward.adapters.spark.sql import names
from lakeward.core.ledger.objects import SourceObject, digest_of
from lakeward.core.operations import adopt as adopting
from lakeward.core.plan import MergePlan
from lakeward.core.ports import ExternalTable
from lakeward.core.progress import Progress
from lakeward.plugins.testing.player import Crash

pytestmark = pytest.mark.spark

D = Decimal
LOAD, FIRST, SECOND = "LOAD00000001.csv", "20261121-100000000.csv", "20261121-110000000.csv"
THEIRS = [(1, "a", D("1.00")), (2, "x", D("2.00")), (5, "e", D("5.00"))]
"""The rows that another job made of the load and the first changes."""

AFTER = [(2, "y", D("9.00")), (4, "d", D("4.00")), (5, "e", D("5.00"))]
COLUMNS = pa.schema([("id", pa.int32()), ("name", pa.string()), ("price", pa.decimal128(8, 2))])


DELTA = pytest.param("delta", marks=pytest.mark.long)
HUDI = pytest.param("hudi", marks=[pytest.mark.hudi, pytest.mark.long])


@pytest.fixture(params=["iceberg", DELTA, HUDI])
def shop(request: pytest.FixtureRequest, project: Project) -> Project:
    """Return a project whose source has a load and two files of changes."""
    project.kind = request.param
    project.configure()
    project.put(LOAD, "1,a,1.00\n2,b,2.00\n3,c,3.00\n")
    project.put(FIRST, "U,2,x,2.00\nD,3,c,3.00\nI,5,e,5.00\n")
    project.put(SECOND, "U,2,y,9.00\nI,4,d,4.00\nD,1,a,1.00\n")
    return project


def catalog(project: Project) -> Any:
    folder = project.folder / "lake"
    folder.mkdir(exist_ok=True)
    uri = f"sqlite:///{folder}/catalog.db"
    return load_catalog("lake", type="sql", uri=uri, warehouse=f"file://{folder}")


def write_table(project: Project, rows: list[Any], *, is_required: bool = True) -> None:
    """Write the table as another engine does.

    That is PyIceberg, with a required key as Flink has it, delta-rs, or a job of Spark with Hudi's defaults.
    """
    content = [dict(zip(COLUMNS.names, row, strict=True)) for row in rows]
    if project.kind == "hudi":
        upsert(project, rows)
        return
    if project.kind == "delta":
        deltalake.write_deltalake(str(path_of(project)), pa.Table.from_pylist(content, COLUMNS))
        return
    lake = catalog(project)
    lake.create_namespace("shop")
    key = NestedField(1, "id", IntegerType(), required=is_required)
    others = NestedField(2, "name", StringType()), NestedField(3, "price", DecimalType(8, 2))
    schema = Schema(key, *others, identifier_field_ids=[1] if is_required else [])
    table = lake.create_table(("shop", "item"), schema)
    shape = COLUMNS.set(0, pa.field("id", pa.int32(), nullable=not is_required))
    table.append(pa.Table.from_pylist(content, shape))


def upsert(project: Project, rows: list[Any]) -> None:
    """Write rows as the quick start of Hudi does, of which the row with the greatest price counts."""
    is_copied = "copy-on-write" in (project.folder / "lakeward.toml").read_text()
    options = {
        "hoodie.table.name": "items",
        "hoodie.datasource.write.table.type": "COPY_ON_WRITE" if is_copied else "MERGE_ON_READ",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "price",
    }
    frame = SparkSession.active().createDataFrame(rows, "id int, name string, price decimal(8,2)")
    frame.write.format("hudi").options(**options).mode("append").save(str(path_of(project)))


def path_of(project: Project) -> Any:
    return project.folder / "lake/shop/item"


def state_of(project: Project) -> Any:
    """Return the parts of a table that any commit would change."""
    if project.kind == "delta":
        return DeltaTable(str(path_of(project))).version()
    if project.kind == "hudi":
        return Timeline(DiskFolder(path_of(project))).newest()
    return catalog(project).load_table(("shop", "item")).metadata_location


def adopt(project: Project, *more: str, code: int = 0) -> Any:
    ended = project.call("adopt", "shop.item", "--json", *more)
    assert ended.code == code, ended.out + ended.err
    return ended if code else ended.document


def test_an_adopted_table_continues_after_the_last_applied_file(shop: Project) -> None:
    write_table(shop, THEIRS)
    before = state_of(shop)
    said = shop.call("adopt", "shop.item").out
    assert "shop.item has 3 rows and 3 columns, and can be adopted" in said
    assert "3 files were found" in said
    explanation = adopt(shop, "--from", FIRST, "--dry-run")
    assert (explanation["applied"], explanation["behind"], explanation["done"]) == ([LOAD, FIRST], [SECOND], False)
    assert state_of(shop) == before
    assert adopt(shop, "--from", FIRST)["done"]
    assert shop.rows() == THEIRS
    (status,) = shop.call("status", "--json").document["tables"]
    assert (status["batch"], status["rows"]) == (1, 3)
    assert shop.call("ledger", "list", "shop.item", "--json").document["states"] == {"applied": 2}
    (run,) = shop.run().values()
    assert [(batch["batch"], batch["counts"]["applied"]) for batch in run["batches"]] == [(2, 3)]
    assert shop.rows() == AFTER
    assert shop.run()["shop.item"]["batches"] == []
    explanation = shop.call("explain", "shop.item", "5", "--json")
    assert explanation.document["stored"]["cells"]["name"] == "e", "a row that was there is explained"
    assert "is one of lakeward's tables already" in adopt(shop, "--none", code=1).err


def test_files_applied_again_give_the_same_rows_and_a_rollback_returns_to_the_adoption(shop: Project) -> None:
    write_table(shop, THEIRS)
    adopt(shop, "--none")
    assert shop.run()["shop.item"]["counts"]["read"] == 9
    assert shop.rows() == AFTER
    (version,) = shop.call("rollback", "shop.item", "--json").document["versions"]
    assert shop.call("rollback", "shop.item", "--to", version["name"], "--json").code == 0
    assert shop.rows() == THEIRS
    shop.run()
    assert shop.rows() == AFTER


@pytest.mark.parametrize("write_mode", ["copy-on-write", "merge-on-read"])
def test_a_truncate_and_a_reload_remove_the_adopted_rows(shop: Project, write_mode: str) -> None:
    shop.configure(tables=ITEM.replace("columns", f'write_mode = "{write_mode}"\ncolumns'))
    write_table(shop, THEIRS)
    adopt(shop, "--from", FIRST)
    assert shop.call("truncate", "shop.item", "--at", SECOND, "--json").code == 0
    assert shop.rows() == []
    shop.run()
    assert shop.rows() == [(2, "y", D("9.00")), (4, "d", D("4.00"))]


@pytest.mark.parametrize("shop", ["iceberg"], indirect=True)
@pytest.mark.parametrize(("said", "deletions"), [("", False), ('write_mode = "merge-on-read"\n', True)])
def test_an_adopted_iceberg_table_keeps_its_layout_unless_the_settings_set_one(
    shop: Project, said: str, deletions: bool
) -> None:
    """Without such a table setting files are rewritten, as is Iceberg's default: readers may know no deletes."""
    shop.configure(tables=ITEM.replace("columns", f"{said}columns"))
    write_table(shop, THEIRS)
    adopt(shop, "--from", FIRST)
    shop.run()
    assert shop.rows() == AFTER
    files = catalog(shop).load_table(("shop", "item")).scan().plan_files()
    assert any(file.delete_files for file in files) == deletions


@pytest.mark.parametrize("shop", ["iceberg", DELTA], indirect=True)
def test_null_and_duplicate_keys_are_counted_and_refused(shop: Project) -> None:
    rows = [*THEIRS, (2, "again", None), (5, "again", None), (5, "and again", None), (None, "nobody", None)]
    write_table(shop, rows, is_required=False)
    before = state_of(shop)
    said = adopt(shop, "--none", code=1).err
    assert '1 row has NULL in the key; 2 keys stand more than once, ["2"] among them' in said
    assert state_of(shop) == before


def test_columns_that_are_not_those_of_the_source_are_refused_with_all_reasons(shop: Project) -> None:
    write_table(shop, THEIRS)
    other = '[tables."shop.item"]\nkey = ["id", "no"]\ncolumns = { id = "string", no = "int", name = "int" }\n'
    shop.configure(tables=other)
    said = adopt(shop, "--none", code=1).err
    assert "it lacks no of the key" in said
    assert "the source differs: " in said


def test_an_unknown_file_and_an_unknown_table_are_named(shop: Project) -> None:
    said = adopt(shop, "--from", FIRST, code=1).err
    assert "the lake has no such table" in said
    write_table(shop, THEIRS)
    assert "`lakeward adopt shop.item` takes it over, where" in shop.fails()
    said = adopt(shop, "--from", "20261121-090000000.csv", code=1).err
    assert f"there are 3, from {LOAD} to {SECOND}" in said
    assert shop.call("adopt", "shop.item", "--none", "--from", FIRST).code == 2


def test_an_adoption_that_crashed_before_its_commit_can_be_repeated(
    shop: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_table(shop, THEIRS)

    def ends(*_: object) -> None:
        raise Crash("the process ends here")

    with monkeypatch.context() as patch:
        for theirs in (IcebergExternalTable, DeltaExternalTable, HudiExternalTable):
            patch.setattr(theirs, "take_over", ends)
        with pytest.raises(Crash):
            adopt(shop, "--from", LOAD)
    adopt(shop, "--from", FIRST)
    shop.run()
    assert shop.rows() == AFTER


def test_a_commit_between_the_check_and_the_adoption_is_a_conflict(
    shop: Project, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_table(shop, THEIRS)
    states = iter("12")
    for theirs in (IcebergExternalTable, DeltaExternalTable, HudiExternalTable):
        monkeypatch.setattr(theirs, "state", property(lambda _: next(states)))
    assert "another writer has just committed" in adopt(shop, "--none", code=75).err


def made_by_sql(project: Project, spark: SparkSession, *statements: str) -> str:
    """Write the rows of the other job to a clustered Delta table that SQL creates and changes."""
    project.kind = "delta"
    project.configure()
    project.put(SECOND, "U,2,y,9.00\nI,4,d,4.00\nD,1,a,1.00\n")
    name = f"delta.`{path_of(project)}`"
    spark.sql(f"CREATE TABLE {name} (id INT, name STRING, price DECIMAL(8,2)) USING delta CLUSTER BY (name)")
    spark.createDataFrame(THEIRS, "id int, name string, price decimal(8,2)").writeTo(name).append()
    for statement in statements:
        spark.sql(f"ALTER TABLE {name} {statement}")
    return name


@pytest.mark.long
def test_a_clustered_table_of_delta_stays_clustered(project: Project, spark: SparkSession) -> None:
    name = made_by_sql(project, spark)
    assert adopt(project, "--none")["rows"] == 3
    project.run()
    assert project.rows() == AFTER
    assert list(spark.sql(f"DESCRIBE DETAIL {name}").first()["clusteringColumns"]) == ["name"]
    log = DiskFolder(path_of(project) / "_delta_log")
    assert list(clustered_by(DeltaTable(str(path_of(project))), log)) == ["name"]


@pytest.mark.long
def test_a_delta_table_with_a_dropped_feature_is_adopted(project: Project, spark: SparkSession) -> None:
    """Delta then keeps the feature `checkpointProtection`, for a day or for ever."""
    has_vectors = "SET TBLPROPERTIES ('delta.enableDeletionVectors' = 'true')"
    made_by_sql(project, spark, has_vectors, "DROP FEATURE deletionVectors")
    assert "checkpointProtection" in (DeltaTable(str(path_of(project))).protocol().writer_features or ())
    adopt(project, "--none")
    project.run()
    assert project.rows() == AFTER


def test_adopting_a_table_without_a_key_warns_of_duplicate_rows(project: Project) -> None:
    project.configure(tables=ITEM.replace('key = ["id"]', ""))
    write_table(project, THEIRS, is_required=False)
    project.put(LOAD, "1,a,1.00\n")
    assert "each row becomes a new one" in " ".join(project.call("adopt", "shop.item").out.split())
    (warning,) = adopt(project, "--none")["warnings"]
    assert "not within a file" in warning
    project.run()
    assert project.rows() == sorted([*THEIRS, THEIRS[0]])


def _adopt_without_objects(
    right: Method, own: TableAdoption, external: ExternalTable, plan: MergePlan, progress: Progress
) -> Any:
    plan = replace(plan, facts=replace(plan.facts, objects=()))
    return right(own, external, plan, replace(progress, digest=digest_of(())))


def _count_known(right: Method, job: object, listed: Sequence[SourceObject], last: str | None) -> Any:
    return right(job, listed, last if last in {item.name for item in listed} else None)


def _objects_without_leftovers(right: Method, own: BatchLog, progress: Progress) -> Any:
    found = right(own, progress)
    own.has_leftovers = False
    return found


class _AnyState(str):
    """A table state that equals every other."""

    __hash__ = str.__hash__

    def __ne__(self, other: object) -> bool:
        return False


NEWEST = {**system_columns.BEFORE, names.SEQUENCE: 1 << 60}
BROKEN = [
    (
        broken("forgets the applied files", wrapped(TableAdoption, "adopt", _adopt_without_objects)),
        test_an_adopted_table_continues_after_the_last_applied_file,
    ),
    (
        broken(
            "orders the existing rows after all changes",
            *(patched(module, "BEFORE", NEWEST) for module in (table_rows, system_columns)),
        ),
        test_files_applied_again_give_the_same_rows_and_a_rollback_returns_to_the_adoption,
    ),
    (
        broken(
            "keeps the existing rows at a truncate",
            *(use_spark_in_commands, patched(Rows, "with_truncated", lambda _self, stood: stood)),
        ),
        test_a_truncate_and_a_reload_remove_the_adopted_rows,
    ),
    (
        broken("counts no keys", patched(adoption, "_count_rows", lambda rows, _: (rows.count(), 0, 0, None))),
        test_null_and_duplicate_keys_are_counted_and_refused,
    ),
    (
        broken("compares no columns", patched(adopting, "_reasons", lambda _, external: iter(external.refused))),
        test_columns_that_are_not_those_of_the_source_are_refused_with_all_reasons,
    ),
    (
        broken("begins at the first file for an unknown one", wrapped(adopting, "_count_applied", _count_known)),
        test_an_unknown_file_and_an_unknown_table_are_named,
    ),
    (
        broken("keeps the change log of a crash", wrapped(BatchLog, "objects", _objects_without_leftovers)),
        test_an_adoption_that_crashed_before_its_commit_can_be_repeated,
    ),
    (
        broken(
            "adopts any table state",
            wrapped(
                *(TableAdoption, "adopt"),
                lambda right, own, external, *of: right(own, replace(external, state=_AnyState()), *of),
            ),
        ),
        test_a_commit_between_the_check_and_the_adoption_is_a_conflict,
    ),
]
"""Mistakes, and the check that must fail on each."""


@pytest.mark.long
@pytest.mark.parametrize("shop", ["iceberg", DELTA], indirect=True)
@pytest.mark.parametrize(("break_it", "check"), BROKEN, ids=lambda value: value.__name__.removeprefix("test_"))
def test_a_broken_adoption_fails_its_check(
    shop: Project,
    monkeypatch: pytest.MonkeyPatch,
    break_it: Break,
    check: Callable[..., None],
) -> None:
    break_it(monkeypatch)
    given = {"shop": shop, "monkeypatch": monkeypatch, "write_mode": "merge-on-read"}
    with pytest.raises(AssertionError):
        check(**{name: given[name] for name in inspect.signature(check).parameters})
