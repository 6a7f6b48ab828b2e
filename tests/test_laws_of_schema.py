"""The law of schema on Spark and Iceberg, Parquet files through the pipeline: a legal change loses no value, an
illegal one touches no row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from broken_iceberg import nulls_what_the_files_lack
from drifting import KEY, Drift, Row, as_arrow, held, illegal, legal, row_of, rows_after
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from project import Project
from pyiceberg.io.pyarrow import schema_to_pyarrow
from pyspark.sql import SparkSession

from lakeward.adapters.iceberg.catalog import IcebergCatalog
from lakeward.adapters.iceberg.columns import columns_in, to_iceberg
from lakeward.adapters.iceberg.options import IcebergOptions
from lakeward.adapters.spark.line import to_arrow
from lakeward.adapters.tables import resolving
from lakeward.core.dimension import TableName
from lakeward.core.evolution import Policies, Policy
from lakeward.core.schema import Column, Schema
from lakeward.entrypoints import settings as read_settings

pytestmark = pytest.mark.spark

packed = settings(
    max_examples=1,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
"""An example is many columns at once, each with a change of its own, or several tables."""


@st.composite
def cases(draw: st.DrawFn, drifts: st.SearchStrategy[Drift]) -> tuple[Drift, Sequence[Row], Sequence[Row]]:
    """Draw a change, the rows that a table has before it, and those of a later file: one new, one not."""
    drift = draw(drifts)
    then = [draw(row_of(drift.before, key)) for key in (1, 2)]
    return drift, then, [draw(row_of(drift.after, key)) for key in (1, 3)]


Case = tuple[Drift, Sequence[Row], Sequence[Row]]


def tells_much(case: Case) -> bool:
    """Whether a case has values to lose, and each kind of change to lose them with."""
    drift, (first, second), _ = case
    goes = [c.name for c in drift.before if drift.after.find(c.name) is None and c.name not in drift.renames]
    grown = [c.name for c in drift.before if c.type.is_nested and drift.after.find(c.name) not in (None, c)]
    return (
        any(second[name] is not None for name in drift.renames)
        and any(first[name] is not None for name in goes)
        and any(second[name] for name in grown)
    )


def are_many(drawn: Sequence[Case]) -> bool:
    """Whether no two cases break a column of the same type."""
    types = [drift.before.find("wrong") for drift, _, _ in drawn]
    return len(set(types)) == len(types)


def deliver(project: Project, table: str, hour: int, schema: Schema, rows: Sequence[Row], operations: str) -> None:
    whole = Schema((Column("Op", replace(KEY.type, name="string")), *schema))
    listed = [{"Op": operation, **as_arrow(row)} for operation, row in zip(operations, rows, strict=True)]
    content = pa.Table.from_pylist(listed, schema_to_pyarrow(to_iceberg(whole), include_field_ids=False))
    folder = project.folder / "landing/shop" / table
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(content, folder / f"20261121-{hour}0000000.parquet")


def stored(project: Project, spark: SparkSession, table: str) -> tuple[Schema, list[Row]]:
    lake = IcebergCatalog(IcebergOptions(warehouse="lake/"), project.folder)
    found = lake.load(TableName("shop", table))
    assert found is not None
    columns = [column for column in columns_in(found.schema(), table) if not column.name.startswith("_lakeward_")]
    schema, session = Schema(tuple(columns)), spark.newSession()
    for name, value in lake.spark_settings.items():
        session.conf.set(name, value)
    rows = to_arrow(session.table(f"lake.shop.{table}").select(*schema.names).orderBy("id")).to_pylist()
    return schema, [held(row, schema) for row in rows]  # PyIceberg reads a list of structs that is NULL as empty


def configure(project: Project, renames: Mapping[str, Mapping[str, str]]) -> None:
    tables = [
        f'[tables."shop.{table}"]\nkey = ["id"]\n[tables."shop.{table}".schema.rename]\n'
        + "".join(f'{old} = "{new}"\n' for old, new in of.items())
        for table, of in renames.items()
    ]
    project.configure("\n".join(tables))


@packed
@given(case=cases(legal(10, 14)).filter(tells_much))
def test_a_legal_change_loses_no_value(project: Project, spark: SparkSession, case: Case) -> None:
    drift, then, now = case
    configure(project, {"one": {}})
    deliver(project, "one", 10, drift.before, then, "II")
    project.run()
    assert stored(project, spark, "one")[1] == [held(row, drift.before) for row in then]
    configure(project, {"one": drift.renames})
    deliver(project, "one", 11, drift.after, now, "UI")
    project.run()
    schema, rows = stored(project, spark, "one")
    assert rows == rows_after(drift, schema, then, now)
    assert {*drift.kept(dict.fromkeys(drift.before.names)), *drift.after.names} == set(schema.names)


@packed
@given(drawn=st.lists(cases(illegal()), min_size=4, max_size=4).filter(are_many))
def test_an_illegal_change_touches_no_row(project: Project, spark: SparkSession, drawn: list[Case]) -> None:
    tables = {f"t{place}": case for place, case in enumerate(drawn)}
    configure(project, {table: {} for table in tables})
    for table, (drift, then, _) in tables.items():
        deliver(project, table, 10, drift.before, then, "II")
    project.run()
    before = {table: stored(project, spark, table) for table in tables}
    configure(project, {table: drift.renames for table, (drift, _, _) in tables.items()})
    for table, (drift, _, now) in tables.items():
        deliver(project, table, 11, drift.after, now, "UI")
    for ran in project.run(code=4).values():
        assert "wrong" in ran["error"]["found"]
    assert {table: stored(project, spark, table) for table in tables} == before


Break = Callable[[pytest.MonkeyPatch], None]


def forgets_the_map(patch: pytest.MonkeyPatch) -> None:
    """Takes a column of another name for another column."""
    policies_of = read_settings.policies_of
    patch.setattr(read_settings, "policies_of", lambda said: replace(policies_of(said), renames={}))


def leaves_nested_values_as_they_were(patch: pytest.MonkeyPatch) -> None:
    """Takes the fields of nested values by their places, not by their names."""
    patch.setattr(resolving, "fitted", lambda frame, _schema: frame)


@pytest.mark.parametrize("broken", [forgets_the_map, leaves_nested_values_as_they_were, nulls_what_the_files_lack])
def test_the_law_sees_what_loses_values(
    project: Project, spark: SparkSession, monkeypatch: pytest.MonkeyPatch, broken: Break
) -> None:
    broken(monkeypatch)
    with pytest.raises(AssertionError):
        test_a_legal_change_loses_no_value(project, spark)


@pytest.mark.filterwarnings("ignore:Generating overly large repr")  # of the case that is to fail
def test_the_law_sees_what_takes_an_illegal_change(
    project: Project, spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Policies, "of", lambda *_: Policy.EVOLVE)
    with pytest.raises(AssertionError):
        test_an_illegal_change_touches_no_row(project, spark)
