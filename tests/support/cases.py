"""Tables of cases that others wrote, compared with what they say."""

from __future__ import annotations

from pathlib import Path

import outside
from delta_lake import by_delta_rs, duck
from deltalake import DeltaTable

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


def check(folder: Path, schema: str, table: str, expected: Path) -> int:
    """Compare both readers' rows with the expected ones, as typed values; return how many there are.

    They are DuckDB, and PyIceberg or delta-rs.
    """
    warehouse = folder / "lake"
    is_delta = not (warehouse / "catalog.db").exists()
    connection = duck() if is_delta else outside.duck()
    connection.execute("SET TimeZone = 'UTC'")
    path = str(warehouse / schema / table)
    scan = f"delta_scan('{path}')" if is_delta else f"iceberg_scan('{outside.metadata(warehouse, schema, table)}')"
    described = connection.execute(f"DESCRIBE SELECT * FROM {scan}").fetchall()
    types = {name: kind for name, kind, *_ in described if not name.startswith("_lakeward_")}
    own = ", ".join(f'"{name}"' for name in types)
    cast = ", ".join(f'CAST("{name}" AS {kind}) AS "{name}"' for name, kind in types.items())
    connection.execute(
        f"CREATE TABLE expected AS SELECT {cast} FROM "
        f"read_csv('{expected}', header = true, all_varchar = true, nullstr = '\\N')"
    )
    if is_delta:
        connection.register("arrow", by_delta_rs(DeltaTable(path)))
    else:
        connection.register("arrow", outside.by_pyiceberg(warehouse, schema, table, list(types)))
    for reader in (scan, "arrow"):
        for one, other in ((reader, "expected"), ("expected", reader)):
            missing = connection.execute(
                f"SELECT {own} FROM {one} EXCEPT ALL SELECT {own} FROM {other} LIMIT 5"
            ).fetchall()
            assert not missing, f"{table}: {one} has rows that {other} lacks: {missing}"
    [rows] = connection.execute("SELECT count(*) FROM expected").fetchall()
    connection.close()
    return int(rows[0])
