"""The condition that a row was valid at an instant is, in each engine, what a version covers."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import duckdb
import pyarrow as pa
import pytest
import sqlglot
from memory_jobs import columns

from lakeward.core.dimension import Dimension, TableName
from lakeward.core.errors import ConfigError
from lakeward.core.events import Position
from lakeward.core.history.as_of import DIALECTS, check, is_current, valid_at
from lakeward.core.history.bitemporal import KnownVersion, known_after, update_known_versions
from lakeward.core.history.options import ByColumn, History, ValidityColumns
from lakeward.core.history.version_rows import rows
from lakeward.core.history.versions import Version, Versions
from lakeward.core.schema import Type

DAY, DATE = 86_400_000_000, Type("date")
FAR = 2_932_896
"""9999-12-31 in days."""

SHAPES = {
    "times": ValidityColumns(),
    "times up to a far one": ValidityColumns(open_end=FAR * DAY, is_current=None),
    "times without zone": ValidityColumns(type=Type("timestamp_ntz"), valid_from="since", valid_to='un"til'),
    "days": ValidityColumns(type=DATE),
    "closed days": ValidityColumns(type=DATE, closed=True),
    "closed days up to a far one": ValidityColumns(type=DATE, closed=True, open_end=FAR, is_current=None),
    "numbers": ValidityColumns(type=Type("bigint")),
    "decimals": ValidityColumns(type=Type("decimal", 20, 0), open_end=10**18),
}
_ARROW = {
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
    "date": pa.date32(),
    "bigint": pa.int64(),
    "decimal": pa.decimal128(20, 0),
}
OWN = columns(id="int", a="int")


def versions(key: int, *bounds: tuple[int, int | None]) -> Versions:
    place = Position(1, 1, 1, 1)
    return tuple(Version(begins, ends, {"id": key, "a": begins}, place, begins) for begins, ends in bounds)


HISTORIES = {1: versions(1, (0, 3), (3, 4), (4, None)), 2: versions(2, (1, 2), (5, 7)), 3: versions(3, (3, None))}


def dimension_of(form: ValidityColumns) -> Dimension:
    validity = {"validity": ByColumn("a")} if form.type.name in ("bigint", "decimal") else {}
    history = History(validity_columns=form, **validity)  # type: ignore[arg-type]
    return Dimension(name=TableName("shop", "item"), schema=OWN, key=("id",), history=history)


def arrow(dimension: Dimension, cells: list[dict[str, object]]) -> pa.Table:
    types = {"int": pa.int32(), "boolean": pa.bool_(), **_ARROW}
    stored = dimension.stored.schema
    return pa.Table.from_pylist(cells, pa.schema([(c.name, types[c.type.name]) for c in stored]))


def by_duckdb(table: pa.Table, condition: str) -> list[tuple[int, int]]:
    with duckdb.connect() as connection:
        connection.register("item", table)
        connection.execute("SET TimeZone = 'Asia/Kolkata'")  # what it asks for does not depend on the session
        return sorted(connection.execute(f"SELECT id, a FROM item WHERE {condition}").fetchall())


@pytest.mark.parametrize("form", SHAPES.values(), ids=SHAPES)
def test_a_row_is_valid_from_its_beginning_up_to_its_end_in_every_form_of_validity(form: ValidityColumns) -> None:
    dimension = dimension_of(form)
    history = dimension.history or History()
    unit = DAY if form.type.name.startswith("timestamp") else 1
    scaled = {
        key: tuple(
            replace(
                one,
                valid_from=one.valid_from * unit,
                valid_to=None if one.valid_to is None else one.valid_to * unit,
            )
            for one in periods
        )
        for key, periods in HISTORIES.items()
    }
    table = arrow(
        dimension, [dict(row) for key, periods in scaled.items() for row in rows(dimension, (key,), periods, {})]
    )
    offsets = (0, 1) if unit == 1 else (-1, 0, 1)  # microseconds to either side of each boundary
    for at in sorted({number * unit + more for number, more in product(range(-1, 9), offsets)}):
        expected = sorted(
            (key, one.cells["a"]) for key, periods in scaled.items() for one in periods if one.covers(at)
        )
        assert by_duckdb(table, valid_at(history, at, dialect=DIALECTS["duckdb"])) == expected, at
    current = sorted(
        (k, one.cells["a"]) for k, periods in scaled.items() for one in periods if one.valid_to is None
    )
    assert by_duckdb(table, is_current(history, DIALECTS["duckdb"])) == current


def test_a_corrected_version_is_found_by_the_batch_after_which_it_was_believed() -> None:
    form = ValidityColumns(type=DATE)
    dimension = replace(dimension_of(form), history=History(validity_columns=form, is_bitemporal=True))
    history = dimension.history or History()
    known_versions: tuple[KnownVersion, ...] = ()
    for batch, periods in enumerate([((0, None),), ((0, 5), (5, None)), ((0, 2), (2, 5), (5, None))], 1):
        known_versions = update_known_versions(dimension, (1,), known_versions, versions(1, *periods), batch)
    names = dimension.stored.schema.names
    table = arrow(dimension, [dict(one.row(history, names)) for one in known_versions])
    for at, known in product(range(-1, 8), (1, 2, 3, None)):
        believed = known_after(known_versions, 3 if known is None else known)
        dated = arrow(dimension, [dict(one.row(history, names)) for one in believed])
        plain = valid_at(replace(history, is_bitemporal=False), at, dialect=DIALECTS["duckdb"])
        assert by_duckdb(table, valid_at(history, at, known, DIALECTS["duckdb"])) == by_duckdb(dated, plain)
    assert by_duckdb(table, is_current(history, DIALECTS["duckdb"])) == [(1, 5)]


@pytest.mark.parametrize(("name", "form"), [*product(DIALECTS, SHAPES.values())])
def test_the_condition_is_valid_sql_for_each_engine(name: str, form: ValidityColumns) -> None:
    history = dimension_of(form).history or History()
    sqlglot.parse_one(f"SELECT * FROM item WHERE {valid_at(history, 5, dialect=DIALECTS[name])}", dialect=name)


@pytest.mark.parametrize(
    ("history", "at", "known", "said"),
    [
        (
            History(validity_columns=ValidityColumns(type=DATE, open_end=FAR)),
            FAR,
            None,
            "shop.item: nothing is known of 9999-12-31",
        ),
        (History(), 0, 3, "shop.item does not keep what was known before"),
    ],
)
def test_a_question_that_a_history_cannot_answer_is_refused(
    history: History, at: int, known: int | None, said: str
) -> None:
    with pytest.raises(ConfigError, match=said):
        check("shop.item", history, at, known)
