"""Results of lakeward from outside: commands in processes of their own, and tables read by other readers."""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest
from pyiceberg.catalog import load_catalog

CASES = Path(__file__).parents[3] / "shared" / "cases"


def case(name: str) -> Path:
    """Return the folder of a case. Without it the test is skipped."""
    folder = CASES / name
    if not folder.is_dir():
        pytest.skip(f"{folder} is not here: it is kept outside of the repository")
    return folder


def lakeward(folder: Path, *arguments: str, code: int = 0) -> Any:
    """Run a command, and return its JSON document."""
    command = [str(Path(sys.executable).with_name("lakeward")), *arguments, "--json"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == code, ended.stdout + ended.stderr
    return json.loads(ended.stdout)


def by_pyiceberg(
    warehouse: Path, namespace: str, table: str, columns: Sequence[str] = ("*",), catalog: str = "lake"
) -> pa.Table:
    """Read a table by PyIceberg, from the catalog's file alone."""
    own_catalog = load_catalog(catalog, type="sql", uri=f"sqlite:///{warehouse}/catalog.db")
    try:
        return own_catalog.load_table((namespace, table)).scan(selected_fields=tuple(columns)).to_arrow()
    finally:
        own_catalog.close()


def duck() -> duckdb.DuckDBPyConnection:
    """Return a DuckDB that reads Iceberg, with no network."""
    connection = duckdb.connect(config={"allow_unsigned_extensions": "true"})
    for name in ("avro", "iceberg"):
        package = find_spec(f"duckdb_extension_{name}")
        assert package is not None
        assert package.submodule_search_locations is not None
        [file] = Path(package.submodule_search_locations[0]).rglob("*.duckdb_extension")
        connection.execute(f"LOAD '{file}'")
    return connection


def metadata(warehouse: Path, namespace: str, table: str) -> str:
    """Return where the table's newest metadata is, from the catalog's file."""
    connection = sqlite3.connect(warehouse / "catalog.db")
    query = "SELECT metadata_location FROM iceberg_tables WHERE table_namespace = ? AND table_name = ?"
    [row] = connection.execute(query, (namespace, table)).fetchall()
    connection.close()
    return str(row[0])
