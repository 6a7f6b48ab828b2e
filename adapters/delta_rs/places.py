"""Where tables without a catalog lie: each is a folder of the warehouse."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from deltalake import DeltaTable
from deltalake.exceptions import DeltaError, TableNotFoundError

from lakeward.adapters.tables.folders import identifier, slug, warehouse
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError, TableError


@dataclass(frozen=True, slots=True)
class Places:
    """The folders of tables, by the names of the source."""

    warehouse: str
    namespace: str
    base: Path
    format: str
    """What the tables are of, in a person's words."""

    def __post_init__(self) -> None:
        given = self.warehouse
        if "://" in given and not given.startswith("file://"):
            raise ConfigError(
                f"the warehouse {given} cannot hold {self.format} tables yet",
                found="lakeward writes them to a disk of this machine",
                todo='Name a folder under [target], or take `kind = "iceberg"`, which writes to S3.',
            )
        warehouse(self.folder)

    @property
    def folder(self) -> Path:
        """The warehouse."""
        return (self.base / self.warehouse.removeprefix("file://")).absolute()

    def name(self, table: TableName, suffix: str = "") -> tuple[str, str]:
        """Return namespace and name of a table, or of one that stands beside it."""
        return identifier(table, self.namespace, suffix)

    def of(self, table: TableName, suffix: str = "") -> str:
        """Return where a table lies; no name leads out of the warehouse."""
        namespace, name = self.name(table, suffix)
        return str(self.folder / slug(namespace) / slug(name))

    def load(self, table: TableName, suffix: str = "") -> DeltaTable | None:
        """Return a table as it is now, read without Spark, or None where there is none."""
        path = self.of(table, suffix)
        if not (Path(path) / "_delta_log").is_dir():
            return None
        try:
            return DeltaTable(path)
        except TableNotFoundError:
            return None
        except (DeltaError, OSError) as error:
            raise TableError(
                f"{table}: the table {path} cannot be read",
                found=str(error).splitlines()[0],
                todo="Nothing was applied. Mend that, and run again.",
            ) from error

    def prepare(self, table: TableName) -> None:
        """Make the folder that a table goes to; raises TableError where that is not allowed."""
        folder = Path(self.of(table)).parent
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise TableError(
                f"the warehouse {folder} cannot be made",
                found=str(error),
                todo="Grant permission to write there, or correct `warehouse` under [target].",
            ) from error


def folder_of(table: DeltaTable) -> Path:
    """Return the folder of a table that was loaded: its address has odd characters encoded."""
    return Path(unquote(table.table_uri.removeprefix("file://")))
