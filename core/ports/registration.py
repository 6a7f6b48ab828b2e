"""Where readers find the tables of a lake that lie in no catalog of their own, and the files of its source."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from lakeward.core.dimension import TableName
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
class TableDescription:
    """A table of a lake as it is now, with all that a reader must know to find and to read it.

    `format` is the kind of its lake. `partitions` are those that a reader cannot find by itself; None where its
    format tells them. One that `has_logs` keeps changes beside its files, which a reader merges. `is_quarantine`
    says that these are rows as they were written, before any rule.
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
    is_quarantine: bool = False

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
