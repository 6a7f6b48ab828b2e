"""Comparison of tables with published cases."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

import duckdb
import outside
import pyarrow as pa
import pyarrow.parquet as pq
from delta_lake import by_delta_rs, by_duckdb, can_be_read, duck
from deltalake import DeltaTable
from hudi_lake import by_hudi_rs

PGBENCH = """
[tables."public.pgbench_accounts"]
key = ["aid"]
columns = { aid = "int", bid = "int", abalance = "int", filler = "string" }

[tables."public.pgbench_branches"]
key = ["bid"]
columns = { bid = "int", bbalance = "int", filler = "string" }

[tables."public.pgbench_tellers"]
key = ["tid"]
columns = { tid = "int", bid = "int", tbalance = "int", filler = "string" }

[tables."public.pgbench_history"]
columns = { tid = "int", bid = "int", aid = "int", delta = "int", mtime = "timestamp_ntz", filler = "string" }
"""

TICKETING = {
    "person": ["id"],
    "player": ["id"],
    "seat": [],
    "seat_type": ["name"],
    "sport_division": ["sport_type_name", "sport_league_short_name", "short_name"],
    "sport_league": ["short_name"],
    "sport_location": ["id"],
    "sport_team": ["id"],
    "sport_type": ["name"],
    "sporting_event": ["id"],
    "sporting_event_ticket": ["id"],
    "ticket_purchase_hist": ["sporting_event_ticket_id", "purchased_by_id", "transaction_date_time"],
}


class TicketingColumn(NamedTuple):
    """A column of the ticketing sample: its type, and its form in messages if Debezium sends it as a number."""

    type: str
    form: str | None = None


def ticketing_columns() -> dict[str, dict[str, TicketingColumn]]:
    """Return the columns of each table, as DMS wrote them as Parquet."""
    written = outside.case("derived-dms-parquet-ticketing") / "input" / "dms_sample"
    files = {name: min((written / name).glob("*.parquet")) for name in TICKETING}
    return {
        name: {
            field.name: _ticketing_column(field)
            for field in pq.read_schema(file)
            if field.name not in ("Op", "TIMESTAMP")
        }
        for name, file in files.items()
    }


def _ticketing_column(field: pa.Field) -> TicketingColumn:
    type_ = field.type
    match type_:
        case _ if pa.types.is_timestamp(type_):  # Debezium sends those of whole seconds as milliseconds
            unit = "millis" if field.name == "transaction_date_time" else "micros"
            return TicketingColumn("timestamp_ntz", f"epoch-{unit}")
        case _ if pa.types.is_decimal(type_):
            return TicketingColumn(f"decimal({type_.precision},{type_.scale})")
        case _:
            names = {"int64": "bigint", "int32": "int", "int16": "int", "date32[day]": "date"}
            return TicketingColumn(names.get(str(type_), str(type_)))


def ticketing_tables() -> str:
    """Return the settings of the tables of the ticketing sample."""
    sections = ""
    for name, columns in ticketing_columns().items():
        declared = {
            column: f'"{type_}"' if form is None else f'{{ type = "{type_}", format = "{form}" }}'
            for column, (type_, form) in columns.items()
        }
        listed = ", ".join(f"{column} = {text}" for column, text in declared.items())
        sections += f'[tables."dms_sample.{name}"]\nkey = {TICKETING[name]}\ncolumns = {{ {listed} }}\n'
    return sections


# The columns of tables with messages.
PRODUCTS: Final = {"id": "int", "name": "string", "description": "string", "weight": "float"}
GROWN: Final = {**PRODUCTS, "age": "int", "address": "string"}
NESTED: Final = {**GROWN, "row": "struct<row_key: string>"}
OF_TWO: Final = {**PRODUCTS, "enum_c": "string", "json_c": "string", "point_c": "string", "new_col": "int"}
CUSTOMERS: Final = {"id": "int", "name": "string", "address": "string", "phone_number": "string"}


def check(folder: Path, schema: str, table: str, expected: Path) -> int:
    """Compare the rows of each reader with the expected ones, as typed values, and return their number.

    Readers are DuckDB (not for Hudi), and PyIceberg, delta-rs or hudi-rs.
    """
    tables = readers(folder / "lake", schema, table)
    with tables.duck as connection:
        connection.execute("SET TimeZone = 'UTC'")
        connection.register("arrow", tables.own())
        described = connection.execute("DESCRIBE SELECT * FROM arrow").fetchall()
        types = {name: kind for name, kind, *_ in described if not name.startswith(("_lakeward_", "_hoodie_"))}
        own = ", ".join(f'"{name}"' for name in types)
        cast = ", ".join(f'CAST("{name}" AS {kind}) AS "{name}"' for name, kind in types.items())
        connection.execute(
            f"CREATE TABLE expected AS SELECT {cast} FROM "
            f"read_csv('{expected}', header = true, all_varchar = true, nullstr = '\\N')"
        )
        for reader in ("arrow", *tables.scans):
            for one, other in ((reader, "expected"), ("expected", reader)):
                missing = connection.execute(
                    f"SELECT {own} FROM {one} EXCEPT ALL SELECT {own} FROM {other} LIMIT 5"
                ).fetchall()
                assert not missing, f"{table}: {one} has rows that {other} lacks: {missing}"
        [rows] = connection.execute("SELECT count(*) FROM expected").fetchall()
    return int(rows[0])


class Readers(NamedTuple):
    """The reader of the format, if it reads the table, and DuckDB with its scans of the table."""

    own: Callable[[], pa.Table]
    duck: duckdb.DuckDBPyConnection
    scans: Sequence[str]


def readers(warehouse: Path, schema: str, table: str) -> Readers:
    """Return the readers of a table of any format."""
    path = warehouse / schema / table
    if (warehouse / "catalog.db").exists():
        metadata = outside.metadata(warehouse, schema, table)
        own = partial(outside.by_pyiceberg, warehouse, schema, table)
        return Readers(own, outside.duck(), [f"iceberg_scan('{metadata}')"])
    if (path / ".hoodie").exists():
        return Readers(partial(by_hudi_rs, path), duckdb.connect(), [])
    own_table = DeltaTable(path)
    own = partial(by_delta_rs, own_table) if can_be_read(own_table) else partial(by_duckdb, str(path))
    return Readers(own, duck(), [f"delta_scan('{path}')"])
