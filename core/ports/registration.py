"""Where readers find the tables of a lake that lie in no catalog of their own, and the files of its source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from lakeward.core.dimension import Dimension, TableName
from lakeward.core.schema import Type


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedColumn:
    """A column as readers see it: its name, its type, and what its comment says of it."""

    name: str
    type: Type
    comment: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DescribedPartition:
    """A partition that has files: its values as texts, in the order of the columns, and the URL of its folder."""

    values: tuple[str, ...]
    location: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CsvForm:
    """How files of CSV are written; without a `quote`, nothing is quoted."""

    delimiter: str
    quote: str
    null_text: str
    has_header: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class TableDescription:
    """A table of a lake as it is now, with all that a reader must know to find and to read it.

    `format` is the kind of its lake, or what files of a source are: `parquet`, or `csv` in a form. `partitions` are
    those that a reader cannot find by itself; None where its format tells them. One that `has_logs` keeps changes
    beside its files, which a reader merges. `is_raw` says that these are rows as they were written, before any
    rule.
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
        """Namespace and name."""
        return self.namespace, self.name


@runtime_checkable
class TableDescriber(Protocol):
    """A lake that says where its tables are; one whose tables can be registered has it. It starts no engine."""

    def identify(self, table: TableName) -> tuple[str, str]:
        """Return namespace and name of a table, which need not be there."""
        ...

    def describe(self, table: TableName, *, quarantine: bool = False) -> TableDescription | None:
        """Return a table as it is now, or what stands in its quarantine; None where there is no such table."""
        ...


@runtime_checkable
class RawDescriber(Protocol):
    """A source that says where the files of its tables lie, for engines that read them as they are."""

    def describe_raw(self, dimension: Dimension, namespace: str) -> Sequence[TableDescription]:
        """Return the folders of a table as tables of a namespace; none where there is no file yet.

        Raises SourceError where the files of a folder cannot be one table.
        """
        ...

    def identify_raw(self, table: TableName, namespace: str) -> Sequence[tuple[str, str]]:
        """Return how the folders of a table may be called in a namespace."""
        ...


class Registration(Protocol):
    """A catalog in which tables are registered that lie elsewhere. What it says there follows the table."""

    def check(self, tables: Sequence[tuple[str, str]]) -> None:
        """Raise ConfigError where it cannot hold tables of these namespaces and names side by side."""
        ...

    def register(self, table: TableDescription) -> None:
        """Make the entry of a table, or bring it up to the table; what is right already is left alone.

        Raises ConfigError where the name is that of another table, which is left as it is, or where it may not,
        and StoreUnreachable where the catalog does not answer.
        """
        ...
