"""Readers of the lake of a demo without Spark, one for each table format."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Protocol

import pyarrow as pa
from pyiceberg.catalog import Catalog, load_catalog
from pyiceberg.exceptions import NoSuchTableError

from lakeward.core.dimension import Dimension
from lakeward.core.errors import SetupError
from lakeward.entrypoints.demo.database import Row
from lakeward.entrypoints.demo.shop import ORDERS


class Lake(Protocol):
    """Reader of a table format for the demo."""

    @property
    def jars(self) -> tuple[str, ...]:
        """The groups of jars that its runs need."""
        ...

    def rows(self, table: Dimension) -> Iterator[Row]:
        """Read the rows of a table, without the columns that lakeward adds; none if the table does not exist."""
        ...

    def examples(self) -> Mapping[str, Sequence[str]]:
        """Return lines of code or SQL that read a table, by reader."""
        ...

    def close(self) -> None:
        """Close what was opened."""
        ...


class IcebergLake:
    """Read by PyIceberg."""

    jars = ("iceberg", "sqlite")

    def __init__(self, folder: Path) -> None:
        lake = folder.absolute()
        self.uri, self.warehouse = f"sqlite:///{lake / 'catalog.db'}", f"file://{lake}"

    @cached_property
    def _catalog(self) -> Catalog:
        """The catalog, opened as any reader would."""
        return load_catalog("lake", type="sql", uri=self.uri, warehouse=self.warehouse)

    def rows(self, table: Dimension) -> Iterator[Row]:
        """Read the rows of a table."""
        names = table.schema.names
        try:
            scan = self._catalog.load_table(tuple(table.name)).scan(selected_fields=names)
        except NoSuchTableError:
            return
        for batch in scan.to_arrow_batch_reader():
            yield from zip(*(batch.column(name).to_pylist() for name in names), strict=True)

    def examples(self) -> Mapping[str, Sequence[str]]:
        """Return lines of code or SQL that read a table, by reader."""
        table = self._catalog.load_table(tuple(ORDERS.name))
        file = table.metadata_location.removeprefix("file:").removeprefix("//")
        return {
            "PyIceberg (Python)": (
                "from pyiceberg.catalog import load_catalog",
                f'lake = load_catalog("lake", type="sql", uri={self.uri!r}, warehouse={self.warehouse!r})',
                f'print(lake.load_table("{ORDERS.name}").scan(limit=5).to_arrow().to_pylist())',
            ),
            "DuckDB (SQL)": _by_duckdb("iceberg", file),
        }

    def close(self) -> None:
        """Close the catalog, if it was opened."""
        if "_catalog" in vars(self):
            self._catalog.close()


class DeltaLake:
    """Read by delta-rs."""

    jars = ("delta",)

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()

    def _path(self, table: Dimension) -> str:
        return str(self.folder.joinpath(*table.name))

    def rows(self, table: Dimension) -> Iterator[Row]:
        """Read the rows of a table."""
        deltalake, path = _import("deltalake", "Delta", "delta"), self._path(table)
        if not deltalake.DeltaTable.is_deltatable(path):
            return
        reader = deltalake.QueryBuilder().register("t", deltalake.DeltaTable(path))
        names = table.schema.names
        columns = ", ".join(f'"{name}"' for name in names)
        result = pa.table(reader.execute(f"SELECT {columns} FROM t").read_all())
        yield from zip(*(result.column(name).to_pylist() for name in names), strict=True)

    def examples(self) -> Mapping[str, Sequence[str]]:
        """Return lines of code or SQL that read a table, by reader."""
        path = self._path(ORDERS)
        return {
            "delta-rs (Python)": (
                "from deltalake import DeltaTable, QueryBuilder",
                f'reader = QueryBuilder().register("orders", DeltaTable({path!r}))',
                'print(reader.execute("SELECT * FROM orders LIMIT 5").read_all())',
            ),
            "DuckDB (SQL)": _by_duckdb("delta", path),
        }

    def close(self) -> None:
        """Nothing is open."""


class HudiLake:
    """Read by hudi-rs."""

    jars = ("hudi",)

    def __init__(self, folder: Path) -> None:
        self.folder = folder.absolute()

    def _path(self, table: Dimension) -> Path:
        return self.folder.joinpath(*table.name)

    def rows(self, table: Dimension) -> Iterator[Row]:
        """Read the rows of a table."""
        hudi, path = _import("hudi", "Hudi", "spark-3.5,hudi"), self._path(table)
        if not (path / ".hoodie").is_dir():
            return
        names = table.schema.names
        batches = hudi.HudiTableBuilder.from_base_uri(str(path)).build().read()
        result = pa.Table.from_batches([pa.record_batch(batch) for batch in batches])
        yield from zip(*(result.column(name).to_pylist() for name in names), strict=True)

    def examples(self) -> Mapping[str, Sequence[str]]:
        """Return lines of code or SQL that read a table, by reader."""
        return {
            "hudi-rs (Python)": (
                "import pyarrow",
                "from hudi import HudiTableBuilder",
                f"batches = HudiTableBuilder.from_base_uri({str(self._path(ORDERS))!r}).build().read()",
                "print(pyarrow.Table.from_batches(batches).slice(0, 5).to_pylist())",
            ),
        }

    def close(self) -> None:
        """Nothing is open."""


def _by_duckdb(extension: str, place: str) -> Sequence[str]:
    quoted = place.replace("'", "''")
    return (
        f"INSTALL {extension}; LOAD {extension};",
        f"SELECT status, count(*), sum(total) FROM {extension}_scan('{quoted}') GROUP BY ALL;",
    )


def _import(package: str, what: str, extra: str) -> Any:
    try:
        return importlib.import_module(package)
    except ModuleNotFoundError as error:
        raise SetupError(
            f"{what} tables need the package {package}, and it is not installed",
            todo=f"Install it: `pip install 'lakeward[{extra}]'`.",
        ) from error


LAKES: Final[Mapping[str, Callable[[Path], Lake]]] = {"iceberg": IcebergLake, "delta": DeltaLake, "hudi": HudiLake}
"""The readers by the name of the table format."""
