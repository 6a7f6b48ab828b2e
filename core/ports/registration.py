"""Registration of tables, and of the files of a source, in a catalog such as Glue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from lakeward.core.dimension import Dimension, TableName
from lakeward.core.schema import Type


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedColumn:
    """A column as readers see it: name, type and comment."""

    name: str
    type: Type
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedPartition:
    """A partition that has files: its values as texts, in the order of its columns, and the URL of its folder."""

    values: tuple[str, ...]
    location: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvForm:
    """The format of CSV files. An empty `quote` means that nothing is quoted."""

    delimiter: str
    quote: str
    null_text: str
    has_header: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDescription:
    """All that a reader must know to find and read a table.

    - `format`: the kind of the lake, or `"parquet"` or `"csv"` for files of a source.
    - `location`: the URL of the folder.
    - `partitions`: the partitions that a reader cannot find by itself; None if the format lists them.
    - `has_logs`: the table has changes in log files, which a reader merges with its data files.
    - `is_raw`: the rows are as the source wrote them, before any column rule.
    - `csv`: the format of CSV files.
    """

    namespace: str
    name: str
    format: str
    location: str
    columns: tuple[DescribedColumn, ...]
    comment: str | None = None
    partition_by: tuple[str, ...] = ()
    partitions: tuple[DescribedPartition, ...] | None = None
    has_logs: bool = False
    is_raw: bool = False
    csv: CsvForm | None = None

    @property
    def identifier(self) -> tuple[str, str]:
        """The namespace and the name."""
        return self.namespace, self.name


@runtime_checkable
class TableDescriber(Protocol):
    """Describes the tables of a lake. A `Target` whose tables can be registered has these methods, too.

    No method starts an engine.
    """

    def identify(self, table: TableName) -> tuple[str, str]:
        """Return the namespace and the name of a table, which need not exist."""
        ...

    def describe(self, table: TableName, *, quarantine: bool = False) -> TableDescription | None:
        """Return the description of a table, or of its quarantine; None if there is no such table."""
        ...


@runtime_checkable
class RawDescriber(Protocol):
    """Describes the folders of source files. A `Source` whose files engines can read has these methods, too."""

    def describe_raw(self, dimension: Dimension, namespace: str) -> Sequence[TableDescription]:
        """Describe the folders of a table as tables of a namespace; empty if there is no file yet.

        `dimension` is that of the source. Raises SourceError if the files of a folder cannot be one table.
        """
        ...

    def identify_raw(self, table: TableName, namespace: str) -> Sequence[tuple[str, str]]:
        """Return the namespaces and names that the folders of a table may get."""
        ...


class Registration(Protocol):
    """A catalog in which tables that lie elsewhere are registered. Its entries are kept equal to the tables."""

    def check(self, tables: Sequence[tuple[str, str]]) -> None:
        """Raise ConfigError if the catalog cannot hold tables of all these namespaces and names.

        It is called before a run begins, and connects to nothing.
        """
        ...

    def register(self, table: TableDescription) -> None:
        """Create the entry of a table, or update it. A correct entry is not written.

        Raises ConfigError if the name belongs to another table, whose entry stays, or if access is denied. Raises
        StoreUnreachable if the catalog does not answer.
        """
        ...
