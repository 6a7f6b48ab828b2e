"""The catalogue `jdbc`: metadata of the source database, read by its driver."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from py4j.protocol import Py4JError

from lakeward.adapters.catalogues.connection import (
    ConnectionOptions,
    bare_url,
    connect,
    driver_jars,
    driver_message,
)
from lakeward.adapters.catalogues.files import chosen
from lakeward.adapters.catalogues.java import jvm
from lakeward.adapters.catalogues.types import DATABASES, Written, decimal, our_type, written
from lakeward.adapters.spark.session.jars import fetch
from lakeward.core.dimension import TableName
from lakeward.core.errors import CatalogueUnreachable
from lakeward.core.schema import Type
from lakeward.core.settings.secrets import Secret, SecretName
from lakeward.core.settings.source_catalogue import SourceColumn, SourceTable


class JdbcOptions(ConnectionOptions):
    """The database itself, asked by the metadata of its driver."""


@dataclass(frozen=True, slots=True)
class JdbcCatalogue:
    """A database that is asked once for all tables, by a JVM that ends afterwards."""

    options: JdbcOptions
    secret: Callable[[SecretName], Secret]

    def describe(self, tables: Collection[TableName]) -> Mapping[TableName, SourceTable]:
        """Return the descriptions of these tables in the database."""
        password = self._password()
        jars = [fetch(jar) for jar in driver_jars(self.options, "catalogue")]
        with jvm(jars) as java:
            try:
                with connect(java, self.options, password, self._password) as connection:
                    return describe(connection, self.options, tables)
            except Py4JError as error:
                # Not `from error`: the message of a driver may contain the password.
                raise self._unreachable(error, password) from None

    def _password(self) -> Secret | None:
        return None if self.options.password is None else self.secret(self.options.password)

    def _unreachable(self, error: Py4JError, password: Secret | None) -> CatalogueUnreachable:
        return CatalogueUnreachable(
            f"the database {bare_url(self.options)} does not answer",
            found=driver_message(error, self.options, password),
            todo="Look whether it runs, whether it can be reached from here, and whether `user` and `password` "
            "under [catalogue] are right.",
        )


def describe(
    connection: Any, options: ConnectionOptions, tables: Collection[TableName]
) -> Mapping[TableName, SourceTable]:
    """Return the descriptions of tables in the metadata of a connection; raises Py4JError of the driver."""
    return _Metadata(connection.getMetaData(), options.types, connection.getCatalog()).describe(tables)


# The metadata of tables: java.sql.DatabaseMetaData.


@dataclass(frozen=True, slots=True)
class _Metadata:
    """The metadata of a connection.

    If the database calls its schemas catalogs, the catalog is the first part of a name.
    """

    metadata: Any
    database: str | None
    own_catalog: str | None

    def describe(self, wanted: Collection[TableName]) -> Mapping[TableName, SourceTable]:
        described = {name: self._table(name, comment) for name in wanted for comment in self._comments(name)}
        missing = [name for name in wanted if name not in described]
        if missing:
            alike = {tuple(part.lower() for part in name) for name in missing}
            listed = [name for name in self._all_tables() if tuple(part.lower() for part in name) in alike]
            comments = {name: comment for name in listed for comment in self._comments(name)}
            tables = {name: self._table(name, comment) for name, comment in comments.items()}
            described.update(chosen(tables, missing))
        return described

    def _comments(self, name: TableName) -> list[str | None]:
        """Return a list with the comment of a table, empty if there is no table of that name."""
        place = self._place(name, self._escaped)
        rows = _rows(self.metadata.getTables(*place, None), "TABLE_TYPE", "REMARKS")
        return [remarks or None for kind, remarks in rows if _is_table(kind)][:1]

    def _all_tables(self) -> list[TableName]:
        catalog = self.own_catalog if self._has_schemas() else None
        rows = _rows(
            self.metadata.getTables(catalog, None, "%", None),
            "TABLE_CAT",
            "TABLE_SCHEM",
            "TABLE_NAME",
            "TABLE_TYPE",
        )
        return [TableName(schema or catalog, name) for catalog, schema, name, kind in rows if _is_table(kind)]

    def _table(self, name: TableName, comment: str | None) -> SourceTable:
        rows = _rows(
            self.metadata.getColumns(*self._place(name, self._escaped), "%"),
            *(
                "ORDINAL_POSITION",
                "COLUMN_NAME",
                "TYPE_NAME",
                "DATA_TYPE",
                "COLUMN_SIZE",
                "DECIMAL_DIGITS",
                "REMARKS",
            ),
        )
        columns = [
            _column(
                self.database,
                Native(column, int(code), int(size or 0), None if digits is None else int(digits)),
                type_name,
                remarks,
            )
            for _, type_name, column, code, size, digits, remarks in sorted(rows, key=lambda row: int(row[0]))
        ]
        key = _rows(self.metadata.getPrimaryKeys(*self._place(name, str)), "KEY_SEQ", "COLUMN_NAME")
        in_order = [column for _, column in sorted(key, key=lambda row: int(row[0]))]
        return SourceTable(name=name, columns=tuple(columns), key=tuple(in_order), comment=comment)

    def _place(self, name: TableName, spelled: Callable[[str], str]) -> tuple[str | None, str | None, str]:
        if self._has_schemas():
            return self.own_catalog, spelled(name.schema), spelled(name.table)
        return name.schema, None, spelled(name.table)

    def _has_schemas(self) -> bool:
        return bool(self.metadata.supportsSchemasInTableDefinitions())

    def _escaped(self, name: str) -> str:
        """Return a name as a pattern that matches only this name."""
        escape = self.metadata.getSearchStringEscape()
        return re.sub(r"([_%\\])", lambda match: escape + match[1], name) if escape else name


def _rows(result: Any, *columns: str) -> list[tuple[Any, ...]]:
    """Read a result set; columns are read in its order, which some drivers require."""
    rows = []
    try:
        while result.next():
            rows.append(tuple(result.getString(column) for column in columns))
    finally:
        result.close()
    return rows


def _is_table(kind: str | None) -> bool:
    return kind is not None and ("TABLE" in kind or "VIEW" in kind) and "SYSTEM" not in kind


@dataclass(frozen=True, slots=True)
class Native:
    """A type as a driver describes it: name, code of java.sql.Types, size, and digits after the point."""

    name: str
    code: int
    size: int = 0
    digits: int | None = None

    @property
    def is_number(self) -> bool:
        """Whether it is an exact number with digits before and after a point."""
        return self.code in (2, 3)

    def __str__(self) -> str:
        if self.is_number and self.size and "(" not in self.name:
            return f"{self.name}({self.size},{self.digits or 0})"
        return self.name


def _column(database: str | None, native: Native, name: str, comment: str | None) -> SourceColumn:
    return SourceColumn(name=name, written=str(native), type=type_of(database, native), comment=comment or None)


def type_of(database: str | None, native: Native) -> Type | None:
    """Return the column type for a driver's type; for an unknown database by its code."""
    if database is None:
        return _by_code(native)
    name = written(native.name).name.removesuffix(" identity")
    numbers = written(native.name).numbers or ((native.size,) if native.size else ())
    if native.is_number and native.size:
        numbers = (native.size, native.digits or 0)
    type_ = our_type(database, Written(name, numbers))
    is_array_or_text = native.code in (_ARRAY, *_TEXTS)
    return Type("string") if type_ is None and is_array_or_text and name not in DATABASES[database] else type_


_ARRAY: Final = 2003
_TEXTS: Final = (1, 12, -1, -15, -9, -16)
_CODES: Final[Mapping[int, str]] = {
    **dict.fromkeys((*_TEXTS, 2005, 2011, -8, 2009, 92, 2013, 70), "string"),
    **dict.fromkeys((-2, -3, -4, 2004), "binary"),
    **dict.fromkeys((-6, 5, 4), "int"),
    **dict.fromkeys((6, 8), "double"),
    -5: "bigint",
    7: "float",
    16: "boolean",
    91: "date",
    93: "timestamp_ntz",
    2014: "timestamp",
}
"""docs.oracle.com/en/java/javase/17/docs/api/constant-values.html#java.sql.Types."""


def _by_code(native: Native) -> Type | None:
    if native.is_number:
        return decimal(native.size, native.digits or 0)
    if native.code == -7:
        return Type("boolean") if native.size <= 1 else None
    name = _CODES.get(native.code)
    return None if name is None else Type(name)
