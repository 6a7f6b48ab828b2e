"""The catalogue `jdbc`: the database of the source itself, by the metadata of its driver."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Final
from urllib.parse import unquote

from py4j.protocol import Py4JError, Py4JJavaError
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PositiveInt

from lakeward.adapters.catalogue.files import Database, chosen
from lakeward.adapters.catalogue.java import jvm
from lakeward.adapters.catalogue.types import DATABASES, Written, decimal, our_type, written
from lakeward.adapters.spark.jars import Jar, fetch, locked
from lakeward.core.catalogue import SourceColumn, SourceTable
from lakeward.core.dimension import TableName
from lakeward.core.errors import CatalogueUnreachable, ConfigError
from lakeward.core.schema import Type
from lakeward.core.secrets import Secret, SecretName
from lakeward.plugins.options import NamedSecret

_DRIVERS: Final = {"postgresql": "postgresql", "mariadb": "mariadb"}
"""Databases whose driver is in the list of jars, by the word behind `jdbc:`; the value is what needs it there."""


_OF_SECRETS: Final = re.compile(r"(?i)pass|pwd|pw$|secret|token|credential|(?:api|access|private)_?key$")
"""What the names of properties have in them whose values are secrets, whatever the driver."""

_PROPERTY: Final = re.compile(r"([^?&;,:(){}=\[\]]+)=")
"""The name of a property within a URL: each driver has delimiters of its own."""


def _url(value: str) -> str:
    if not re.fullmatch(r"jdbc:[A-Za-z0-9]+:\S+", value):
        raise ValueError("must be a URL of JDBC, as jdbc:postgresql://db.example.org:5432/shop")
    has_secret = any(_OF_SECRETS.search(name) for name in _PROPERTY.findall(unquote(value)))
    if has_secret or re.search(r"://[^/@]*:[^/@]*@|:[^:/@]+/[^:/@]+@", value):
        raise ValueError("must have no password in it: `password` says where that is")
    return value


def _without_secrets(value: dict[str, str]) -> dict[str, str]:
    if strange := [name for name in value if _OF_SECRETS.search(name)]:
        raise ValueError(f"{strange[0]} does not stand here: `password` says where a secret is")
    return value


class DriverOptions(BaseModel):
    """A jar of a driver: what Maven calls it, and the SHA-256 of its content."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    coordinates: str = Field(
        pattern=r"^[\w.-]+:[\w.-]+:[\w.-]+$",
        description="Its Maven coordinates, as `com.microsoft.sqlserver:mssql-jdbc:12.10.0.jre11`.",
    )
    sha256: str = Field(pattern=r"^[0-9a-f]{64}$", description="The SHA-256 of the jar: no other is used.")


class JdbcOptions(BaseModel):
    """The database itself, asked by the metadata of its driver."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    url: Annotated[str, AfterValidator(_url)] = Field(
        description="Where the database is, as the driver has it: `jdbc:postgresql://host:5432/shop`. Without "
        "credentials."
    )
    user: str | None = Field(None, description="Who asks; reading the metadata is all that is needed.")
    password: NamedSecret | None = Field(
        None, description='Where the password is: `{ env = "DB_PASSWORD" }` or `{ file = "/run/secrets/db" }`.'
    )
    properties: Annotated[dict[str, str], AfterValidator(_without_secrets)] = Field(
        default_factory=dict, description='Further properties of the driver, as `{ sslmode = "verify-full" }`.'
    )
    drivers: list[DriverOptions] = Field(
        default_factory=list,
        description="The jars of the driver. PostgreSQL and MariaDB need none: theirs are known to lakeward.",
    )
    database: Database | None = Field(
        None, description="Whose types it has; without it, the word behind `jdbc:` says it."
    )
    timeout: PositiveInt = Field(
        30, description="Seconds that a login may take until the database counts as not answering."
    )

    @property
    def product(self) -> str:
        """The word behind `jdbc:`."""
        return self.url.split(":")[1].lower()

    @property
    def types(self) -> str | None:
        """The database whose types these are; None for one that is not known."""
        return self.database or (self.product if self.product in DATABASES else None)


@dataclass(frozen=True, slots=True)
class JdbcCatalogue:
    """A database that is asked once for all tables, by a JVM that ends afterwards."""

    options: JdbcOptions
    secret: Callable[[SecretName], Secret]

    def describe(self, tables: Collection[TableName]) -> Mapping[TableName, SourceTable]:
        """Return what the database says of these tables."""
        password = None if self.options.password is None else self.secret(self.options.password)
        with jvm(self._jars()) as java, self._connected(java, password) as connection:
            try:
                return _Metadata(connection.getMetaData(), self.options.types, connection.getCatalog()).describe(
                    tables
                )
            except Py4JError as error:
                raise self._unreachable(error, password) from None

    def _jars(self) -> Sequence[Path]:
        options = self.options
        given = [Jar(one.coordinates, "catalogue", one.sha256, 0) for one in options.drivers]
        jars = given or locked([_DRIVERS[options.product]] if options.product in _DRIVERS else [])
        if not jars:
            raise ConfigError(
                f"no driver is known for jdbc:{options.product}",
                todo="Name its jars by `drivers` under [catalogue], each with `coordinates` and `sha256`.",
            )
        return [fetch(jar) for jar in jars]

    @contextmanager
    def _connected(self, java: Any, password: Secret | None) -> Iterator[Any]:
        properties = java.java.util.Properties()
        for name, value in self.options.properties.items():
            properties.setProperty(name, value)
        if self.options.user is not None:
            properties.setProperty("user", self.options.user)
        if password is not None:
            properties.setProperty("password", password.reveal().decode("utf-8", "surrogateescape"))
        try:
            java.java.sql.DriverManager.setLoginTimeout(self.options.timeout)
            connection = java.java.sql.DriverManager.getConnection(self.options.url, properties)
        except Py4JError as error:
            # Not `from error`: what a driver says may have the password in it.
            raise self._unreachable(error, password) from None
        try:
            yield connection
        finally:
            connection.close()

    def _unreachable(self, error: Py4JError, password: Secret | None) -> CatalogueUnreachable:
        said = str(error.java_exception.getMessage()) if isinstance(error, Py4JJavaError) else "Java ended"
        said = said.splitlines()[0] if said else "it does not say why"
        url = self.options.url
        bare = re.split(r"[?;]", url)[0]  # the name of a property may be one that nobody knows for a secret's
        said = said.replace(url, bare)
        return CatalogueUnreachable(
            f"the database {bare} does not answer",
            found=said if password is None else password.hidden_in(said),
            todo="Look whether it runs, whether it can be reached from here, and whether `user` and `password` "
            "under [catalogue] are right.",
        )


# What a driver says of tables: java.sql.DatabaseMetaData.


@dataclass(frozen=True, slots=True)
class _Metadata:
    """The metadata of a connection. Where a schema is called a catalog, that is the first part of a name."""

    of: Any
    database: str | None
    own_catalog: str | None

    def describe(self, wanted: Collection[TableName]) -> Mapping[TableName, SourceTable]:
        found = {name: self._table(name, comment) for name in wanted for comment in self._comments(name)}
        missing = [name for name in wanted if name not in found]
        if missing:
            alike = {tuple(part.lower() for part in name) for name in missing}
            listed = [name for name in self._every() if tuple(part.lower() for part in name) in alike]
            known = {name: comment for name in listed for comment in self._comments(name)}
            tables = {name: self._table(name, comment) for name, comment in known.items()}
            found.update(chosen(tables, missing))
        return found

    def _comments(self, name: TableName) -> list[str | None]:
        """Return the comment of a table, or nothing where there is none of that name."""
        place = self._place(name, self._escaped)
        rows = _rows(self.of.getTables(*place, None), "TABLE_TYPE", "REMARKS")
        return [remarks or None for kind, remarks in rows if _is_table(kind)][:1]

    def _every(self) -> list[TableName]:
        catalog = self.own_catalog if self._has_schemas() else None
        rows = _rows(
            self.of.getTables(catalog, None, "%", None), "TABLE_CAT", "TABLE_SCHEM", "TABLE_NAME", "TABLE_TYPE"
        )
        return [TableName(schema or catalog, name) for catalog, schema, name, kind in rows if _is_table(kind)]

    def _table(self, name: TableName, comment: str | None) -> SourceTable:
        rows = _rows(
            self.of.getColumns(*self._place(name, self._escaped), "%"),
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
                own,
                remarks,
            )
            for _, own, column, code, size, digits, remarks in sorted(rows, key=lambda row: int(row[0]))
        ]
        key = _rows(self.of.getPrimaryKeys(*self._place(name, str)), "KEY_SEQ", "COLUMN_NAME")
        in_order = [column for _, column in sorted(key, key=lambda row: int(row[0]))]
        return SourceTable(name=name, columns=tuple(columns), key=tuple(in_order), comment=comment)

    def _place(self, name: TableName, spelled: Callable[[str], str]) -> tuple[str | None, str | None, str]:
        if self._has_schemas():
            return self.own_catalog, spelled(name.schema), spelled(name.table)
        return name.schema, None, spelled(name.table)

    def _has_schemas(self) -> bool:
        return bool(self.of.supportsSchemasInTableDefinitions())

    def _escaped(self, name: str) -> str:
        """Return a name as a pattern that takes nothing else."""
        escape = self.of.getSearchStringEscape()
        return re.sub(r"([_%\\])", lambda found: escape + found[1], name) if escape else name


def _rows(result: Any, *columns: str) -> list[tuple[Any, ...]]:
    """Read a result set of the driver; columns in the order that it has them, which some drivers want."""
    found = []
    try:
        while result.next():
            found.append(tuple(result.getString(column) for column in columns))
    finally:
        result.close()
    return found


def _is_table(kind: str | None) -> bool:
    return kind is not None and ("TABLE" in kind or "VIEW" in kind) and "SYSTEM" not in kind


@dataclass(frozen=True, slots=True)
class Native:
    """A type as a driver tells it: its name, its code in java.sql.Types, size and digits behind the point."""

    name: str
    code: int
    size: int = 0
    digits: int | None = None

    @property
    def is_number(self) -> bool:
        """Whether it has digits before and behind a point."""
        return self.code in (2, 3)

    def __str__(self) -> str:
        if self.is_number and self.size and "(" not in self.name:
            return f"{self.name}({self.size},{self.digits or 0})"
        return self.name


def _column(database: str | None, native: Native, name: str, comment: str | None) -> SourceColumn:
    return SourceColumn(name=name, written=str(native), type=type_of(database, native), comment=comment or None)


def type_of(database: str | None, native: Native) -> Type | None:
    """Return our type of what a driver tells; of a database that is not known, by its code."""
    if database is None:
        return _by_code(native)
    name = written(native.name).name.removesuffix(" identity")
    numbers = written(native.name).numbers or ((native.size,) if native.size else ())
    if native.is_number and native.size:
        numbers = (native.size, native.digits or 0)
    found = our_type(database, Written(name, numbers))
    is_array_or_text = native.code in (_ARRAY, *_TEXTS)
    return Type("string") if found is None and is_array_or_text and name not in DATABASES[database] else found


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
