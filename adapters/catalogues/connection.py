"""Connections to a database by its driver in Java: settings, jars, and what errors may say."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Final
from urllib.parse import unquote

from py4j.protocol import Py4JJavaError
from pydantic import AfterValidator, BaseModel, ConfigDict, Field, PositiveInt

from lakeward.adapters.catalogues.files import Database
from lakeward.adapters.catalogues.types import DATABASES
from lakeward.adapters.spark.session.jars import Jar, locked
from lakeward.core.errors import ConfigError
from lakeward.core.settings.secrets import Secret
from lakeward.plugins.options import NamedSecret

_DRIVERS: Final = {"postgresql": "postgresql", "mariadb": "mariadb"}
"""Databases whose driver is in the list of jars, by the word behind `jdbc:`; the value is what needs it there."""

_AS_THEY_ARE: Final[Mapping[str, Mapping[str, str]]] = {
    "mysql": {"tinyInt1isBit": "false", "yearIsDateType": "false"},
}
"""Properties by the word behind `jdbc:`, without which a driver gives values as others: a `tinyint(1)` of 7 as true
(dev.mysql.com/doc/connector-j/en/connector-j-connp-props-result-sets.html)."""

_LOGIN: Final = "28"
"""The class of SQLSTATE that says who may not log in (ISO 9075; both PostgreSQL and MariaDB)."""

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


class ConnectionOptions(BaseModel):
    """Where a database is, and how to log in there."""

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


def driver_group(options: ConnectionOptions) -> str | None:
    """Return the group of jars that has the driver of a database; None where lakeward knows of none."""
    return _DRIVERS.get(options.product)


def driver_jars(options: ConnectionOptions, section: str) -> Sequence[Jar]:
    """Return the jars of the driver; raises ConfigError where `section` of the settings must name them."""
    given = [Jar(one.coordinates, section, one.sha256, 0) for one in options.drivers]
    group = driver_group(options)
    jars = given or locked([] if group is None else [group])
    if not jars:
        raise ConfigError(
            f"no driver is known for jdbc:{options.product}",
            todo=f"Name its jars by `drivers` under [{section}], each with `coordinates` and `sha256`.",
        )
    return jars


@contextmanager
def connect(
    java: Any, options: ConnectionOptions, password: Secret | None, again: Callable[[], Secret | None]
) -> Iterator[Any]:
    """Connect to the database, in a JVM whose class path has the driver; closed with the context.

    Where nobody is let in, the password is read `again`: it may have been changed just now, and is tried once.
    Raises Py4JError as the driver does: show of it what `driver_message` returns, and nothing else.
    """
    java.java.sql.DriverManager.setLoginTimeout(options.timeout)
    connection = _let_in(java, options, password, again)
    try:
        yield connection
    finally:
        connection.close()


def _let_in(
    java: Any, options: ConnectionOptions, password: Secret | None, again: Callable[[], Secret | None]
) -> Any:
    """Return a connection; a password that was refused is read again, and another one is tried."""
    try:
        return _opened(java, options, password)
    except Py4JJavaError as error:
        if not is_login(error.java_exception):
            raise
        refused = error
    newer = again()
    if newer is None or password is None or newer.reveal() == password.reveal():
        raise refused
    try:
        return _opened(java, options, newer)
    except Py4JJavaError as error:
        if is_login(error.java_exception):  # as the first was, and who shows it knows the first password alone
            raise refused from None
        raise error from None


def _opened(java: Any, options: ConnectionOptions, password: Secret | None) -> Any:
    properties = java.java.util.Properties()
    for name, value in login(options, password).items():
        properties.setProperty(name, value)
    return java.java.sql.DriverManager.getConnection(options.url, properties)


def is_login(java: Any) -> bool:
    """Return whether an exception of Java, or one that led to it, says that nobody is let in."""
    return any(state.startswith(_LOGIN) for state in states_of(java))


def states_of(java: Any) -> Sequence[str]:
    """Return the SQLSTATEs of an exception of Java and of those that led to it."""
    return [state for state in map(_state, chain_of(java)) if state is not None]


def chain_of(java: Any) -> Sequence[Any]:
    """Return an exception of Java and those that led to it."""
    found: list[Any] = []
    while java is not None and len(found) < 20:
        found.append(java)
        java = java.getCause()
    return found


def _state(java: Any) -> str | None:
    """Return the SQLSTATE of an exception; None of one that is not of a database."""
    try:
        state = java.getSQLState()
    except Exception:  # noqa: BLE001  # py4j has an error of its own for a method that is not there
        return None
    return None if state is None else str(state)


def login(options: ConnectionOptions, password: Secret | None) -> dict[str, str]:
    """Return the properties with which a driver connects, the password among them; those of the settings count."""
    found = {**_AS_THEY_ARE.get(options.product, {}), **options.properties}
    if options.user is not None:
        found["user"] = options.user
    if password is not None:
        found["password"] = password.reveal().decode("utf-8", "surrogateescape")
    return found


def bare_url(options: ConnectionOptions) -> str:
    """Return the URL without its properties: the name of one may be one that nobody knows for a secret's."""
    return re.split(r"[?;]", options.url)[0]


def driver_message(error: BaseException, options: ConnectionOptions, password: Secret | None) -> str:
    """Return the first line of what a driver says, without the password and the properties of the URL."""
    said = str(error.java_exception.getMessage()) if isinstance(error, Py4JJavaError) else "Java ended"
    said = said.splitlines()[0] if said else "it does not say why"
    said = said.replace(options.url, bare_url(options))
    return said if password is None else password.hidden_in(said)
