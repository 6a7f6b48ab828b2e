"""The law of schema on each table format, with Parquet files: a legal change loses no value, and
an illegal one, or one that the format cannot make, touches no row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from broken_iceberg import NULLS_WHAT_THE_FILES_LACK
from cases import readers
from drifting import KEY, Drift, Row, as_arrow, illegal, legal, row_of, rows_after, stored_row, with_texts_as_keys
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from project import Project, any_kind
from pyiceberg.io.pyarrow import schema_to_pyarrow
from resolution_switches import use_spark_in_commands

from lakeward.adapters.formats.delta import checks as delta
from lakeward.adapters.formats.delta.options import TableOptions as DeltaOptions
from lakeward.adapters.formats.hudi import checks as hudi
from lakeward.adapters.formats.hudi.options import TableOptions as HudiOptions
from lakeward.adapters.formats.iceberg import checks as iceberg
from lakeward.adapters.formats.iceberg.metadata.columns import to_iceberg
from lakeward.adapters.formats.iceberg.options import TableOptions as IcebergOptions
from lakeward.adapters.formats.shared.resolution import resolver
from lakeward.adapters.sources.rows.parquet_footers import read_footer
from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import ConfigError
from lakeward.core.schema import Column, Schema, Type
from lakeward.core.schema_changes.evolution import Policies, Policy
from lakeward.entrypoints.settings import configuration as read_settings

pytestmark = pytest.mark.spark

packed = settings(max_examples=1, deadline=None, phases=[Phase.generate], suppress_health_check=list(HealthCheck))
"""One example has many columns, each with its own change, or several tables."""

CHECKS: Mapping[str, tuple[Callable[[Dimension, Any], None], Any]] = {
    "iceberg": (iceberg.check_options, IcebergOptions()),
    "delta": (delta.check_options, DeltaOptions()),
    "hudi": (hudi.check_table, HudiOptions()),
}
"""The checks of columns that each format makes before it writes."""

NUMBERED = Type("map", parts=(Column("key", Type("int")), Column("value", Type("int"))))


@st.composite
def cases(draw: st.DrawFn, drifts: st.SearchStrategy[Drift]) -> tuple[Drift, Sequence[Row], Sequence[Row]]:
    """Draw a schema change, the rows before it, and those of a later file, two of them new."""
    drift = draw(drifts)
    then = [draw(row_of(drift.before, key)) for key in (1, 2)]
    return drift, then, [draw(row_of(drift.after, key)) for key in (1, 3, 4)]


Case = tuple[Drift, Sequence[Row], Sequence[Row]]


def tells_much(case: Case) -> bool:
    """Return True if a case has values to lose, by each kind of change except renames."""
    drift, (first, second), _ = case
    goes = [c.name for c in drift.before if drift.after.find(c.name) is None and c.name not in drift.renames]
    grown = [c.name for c in drift.before if c.type.is_nested and drift.after.find(c.name) not in (None, c)]
    return any(first[name] is not None for name in goes) and any(second[name] for name in grown)


def renames_values(case: Case) -> bool:
    """Return True if a renamed column of a case has a value."""
    drift, (_, second), _ = case
    return any(second[name] is not None for name in drift.renames)


def have_different_types(drawn: Sequence[Case]) -> bool:
    """Return True if no two cases change a column of the same type illegally."""
    types = [drift.before.find("wrong") for drift, _, _ in drawn]
    return len(set(types)) == len(types)


def deliver(project: Project, table: str, hour: int, schema: Schema, rows: Sequence[Row], operations: str) -> None:
    whole = Schema((Column("Op", replace(KEY.type, name="string")), *schema))
    listed = [{"Op": operation, **as_arrow(row)} for operation, row in zip(operations, rows, strict=True)]
    content = pa.Table.from_pylist(listed, schema_to_pyarrow(to_iceberg(whole), include_field_ids=False))
    folder = project.folder / "landing/shop" / table
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(content, folder / f"20261121-{hour}0000000.parquet")


def read_table(project: Project, table: str) -> tuple[Schema, list[Row]]:
    """Return the columns and rows that a reader other than Spark finds."""
    found = readers(project.folder / "lake", "shop", table)
    with found.duck as connection:
        read = connection.sql(f"SELECT * FROM {found.scans[0]}").to_arrow_table() if found.scans else found.own()
    ours = [name for name in read.column_names if name.startswith(("_lakeward_", "_hoodie_"))]
    read = read.drop_columns(ours).sort_by("id")
    pq.write_table(read, project.folder / "read.parquet")
    schema = read_footer(project.folder / "read.parquet", table).schema
    return schema, [stored_row(row, schema) for row in read.to_pylist()]


def configure(project: Project, renames: Mapping[str, Mapping[str, str]], more: str = "") -> None:
    tables = [
        f'[tables."shop.{table}"]\nkey = ["id"]\n{more}\n[tables."shop.{table}".schema.rename]\n'
        + "".join(f'{old} = "{new}"\n' for old, new in of.items())
        for table, of in renames.items()
    ]
    project.configure("\n".join(tables))


def takes(kind: str, type_: Type) -> bool:
    """Return True if a table format accepts columns of a type."""
    check, options = CHECKS[kind]
    columns = Schema((KEY, Column("c", type_)))
    try:
        check(Dimension(name=TableName("shop", "item"), schema=columns, key=(KEY.name,)), options)
    except ConfigError:
        return False
    return True


def changes_of(project: Project, drifts: st.SearchStrategy[Drift]) -> st.SearchStrategy[Case]:
    """Draw cases with types that the format has."""
    return cases(drifts if takes(project.kind, NUMBERED) else drifts.map(with_texts_as_keys))


@pytest.mark.parametrize(
    ("project", "renames"),
    [
        *[("iceberg", True), ("delta", True), pytest.param("hudi", False, marks=pytest.mark.hudi)],
        *[pytest.param(kind, False, marks=pytest.mark.long) for kind in ("iceberg", "delta")],
        pytest.param("hudi", True, marks=[pytest.mark.hudi, pytest.mark.long]),
    ],
    indirect=["project"],
)
@packed
@given(data=st.data())
def test_a_legal_change_loses_no_value(project: Project, renames: bool, data: st.DataObject) -> None:
    """With renames and without, because Hudi rewrites all rows for a rename.

    An update of a missing row creates it, unless it lacks a column.
    """
    drawn = changes_of(project, legal(10, 14, renames_columns=renames)).filter(tells_much)
    drift, then, now = data.draw(drawn.filter(renames_values) if renames else drawn)
    configure(project, {"one": {}})
    deliver(project, "one", 10, drift.before, then, "II")
    project.run()
    assert read_table(project, "one")[1] == [stored_row(row, drift.before) for row in then]
    configure(project, {"one": drift.renames})
    *found, absent = now
    deliver(project, "one", 11, drift.after, found, "UI")
    project.run()
    schema, rows = read_table(project, "one")
    assert rows == rows_after(drift, schema, then, found)
    deliver(project, "one", 12, drift.after, [absent], "U")
    counts = project.run()["shop.one"]["counts"]
    assert counts["quarantined"] == (0 if drift.is_whole(absent) else 1)
    applied = now if drift.is_whole(absent) else found
    assert read_table(project, "one")[1] == rows_after(drift, schema, then, applied)
    assert {*drift.kept(dict.fromkeys(drift.before.names)), *drift.after.names} == set(schema.names)


@any_kind
@packed
@given(data=st.data())
def test_an_illegal_change_touches_no_row(project: Project, data: st.DataObject) -> None:
    drawn = data.draw(st.lists(changes_of(project, illegal()), min_size=4, max_size=4).filter(have_different_types))
    tables = {f"t{place}": case for place, case in enumerate(drawn)}
    configure(project, {table: {} for table in tables})
    for table, (drift, then, _) in tables.items():
        deliver(project, table, 10, drift.before, then, "II")
    project.run()
    before = {table: read_table(project, table) for table in tables}
    configure(project, {table: drift.renames for table, (drift, _, _) in tables.items()})
    for table, (drift, _, now) in tables.items():
        deliver(project, table, 11, drift.after, now, "UIU")
    for ran in project.run(code=4).values():
        assert "wrong" in ran["error"]["found"]
    assert {table: read_table(project, table) for table in tables} == before


A = Column("a", Type("int"))
NUMBERED_IS_NEW = Drift(before=Schema((KEY, A)), after=Schema((KEY, A, Column("b", NUMBERED))))
CALLED_OTHERWISE = Drift(before=Schema((KEY, A)), after=Schema((KEY, Column("b", A.type))), renames={"a": "b"})
FEED = 'properties = { "delta.enableChangeDataFeed" = "true" }'


@pytest.mark.parametrize(
    ("project", "more", "drift", "why"),
    [
        pytest.param(
            *("delta", FEED, CALLED_OTHERWISE, "'a' cannot be renamed: the table has a change data feed"),
            id="delta",
        ),
        pytest.param(
            *("hudi", "", NUMBERED_IS_NEW, "the keys of Hudi's maps are texts"), id="hudi", marks=pytest.mark.hudi
        ),
    ],
    indirect=["project"],
)
def test_a_change_that_a_format_cannot_make_is_refused_and_touches_no_row(
    project: Project, more: str, drift: Drift, why: str
) -> None:
    """`test_schema_changes.py` has those of Iceberg."""
    configure(project, {"one": {}}, more)
    deliver(project, "one", 10, drift.before, [{"id": 1, "a": 1}, {"id": 2, "a": 2}], "II")
    project.run()
    before = read_table(project, "one")
    configure(project, {"one": drift.renames}, more)
    deliver(project, "one", 11, drift.after, [{"id": 1, "a": 3, "b": None}, {"id": 3, "a": 4, "b": None}], "UI")
    assert why in project.fails("shop.one")
    assert read_table(project, "one") == before


Break = Callable[[pytest.MonkeyPatch], None]


def forgets_the_map(patch: pytest.MonkeyPatch) -> None:
    """Ignores the renames of the settings."""
    policies_of = read_settings.policies_of
    patch.setattr(read_settings, "policies_of", lambda said: replace(policies_of(said), renames={}))


def leaves_nested_values_as_they_were(patch: pytest.MonkeyPatch) -> None:
    """Reads the fields of nested values by place and not by name."""
    use_spark_in_commands(patch)
    patch.setattr(resolver, "fitted", lambda frame, _schema: frame)


@any_kind
@pytest.mark.parametrize(
    ("broken", "renames"),
    [
        (NULLS_WHAT_THE_FILES_LACK, True),
        pytest.param(forgets_the_map, True, marks=pytest.mark.long),
        pytest.param(leaves_nested_values_as_they_were, True, marks=pytest.mark.long),
        pytest.param(leaves_nested_values_as_they_were, False, marks=pytest.mark.long),
        pytest.param(NULLS_WHAT_THE_FILES_LACK, False, marks=pytest.mark.long),
    ],
)
def test_the_law_fails_where_values_are_lost(
    project: Project, monkeypatch: pytest.MonkeyPatch, broken: Break, renames: bool
) -> None:
    broken(monkeypatch)
    with pytest.raises(AssertionError):
        test_a_legal_change_loses_no_value(project, renames)


@pytest.mark.long
@any_kind
@pytest.mark.filterwarnings("ignore:Generating overly large repr")  # of the case that is to fail
def test_the_law_fails_where_an_illegal_change_is_made(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Policies, "of", lambda *_: Policy.EVOLVE)
    with pytest.raises(AssertionError):
        test_an_illegal_change_touches_no_row(project)
