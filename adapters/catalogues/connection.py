"""Connections to a database by its Java driver: settings, jars, and errors without secrets."""

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
"""By the word after `jdbc:`, the group of the jar list that has the driver."""

_UNCHANGED_VALUES: Final[Mapping[str, Mapping[str, str]]] = {
    "mysql": {"tinyInt1isBit": "false", "yearIsDateType": "false"},
}
"""By the word after `jdbc:`, properties without which a driver changes values: it would return a `tinyint(1)` of 7
as true (dev.mysql.com/doc/connector-j/en/connector-j-connp-props-result-sets.html).
"""

_LOGIN: Final = "28"
"""The class of SQLSTATE for a refused login (ISO 9075; both PostgreSQL and MariaDB)."""

_SECRET_NAME: Final = re.compile(r"(?i)pass|pwd|pw$|secret|token|credential|(?:api|access|private)_?key$")
"""Matches names of properties whose values are secrets, in any driver."""

_PROPERTY: Final = re.compile(r"([^?&;,:(){}=\[\]]+)=")
"""Matches the name of a property in a URL; the delimiters depend on the driver."""


def _url(value: str) -> str:
    if not re.fullmatch(r"jdbc:[A-Za-z0-9]+:\S+", value):
        raise ValueError("must be a URL of JDBC, as jdbc:postgresql://db.example.org:5432/shop")
    has_secret = any(_SECRET_NAME.search(name) for name in _PROPERTY.findall(unquote(value)))
    if has_secret or re.search(r"://[^/@]*:[^/@]*@|:[^:/@]+/[^:/@]+@", value):
        raise ValueError("must have no password in it: `password` says where that is")
    return value


def _without_secrets(value: dict[str, str]) -> dict[str, str]:
    if secret_names := [name for name in value if _SECRET_NAME.search(name)]:
        raise ValueError(f"{secret_names[0]} does not stand here: `password` says where a secret is")
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
        """The word after `jdbc:`."""
        return self.url.split(":")[1].lower()

    @property
    def types(self) -> str | None:
        """The database that defines the types; None if it is unknown."""
        return self.database or (self.product if self.product in DATABASES else None)


def driver_group(options: ConnectionOptions) -> str | None:
    """Return the group of jars with the driver of a database; None if lakeward knows none."""
    return _DRIVERS.get(options.product)


def driver_jars(options: ConnectionOptions, section: str) -> Sequence[Jar]:
    """Return the jars of the driver; raises ConfigError if `section` of the settings must name them."""
    named_jars = [Jar(driver.coordinates, section, driver.sha256, 0) for driver in options.drivers]
    group = driver_group(options)
    jars = named_jars or locked([] if group is None else [group])
    if not jars:
        raise ConfigError(
            f"no driver is known for jdbc:{options.product}",
            todo=f"Name its jars by `drivers` under [{section}], each with `coordinates` and `sha256`.",
        )
    return jars


@contextmanager
def connect(
    java: Any, options: ConnectionOptions, password: Secret | None, read_again: Callable[[], Secret | None]
) -> Iterator[Any]:
    """Connect to the database in a JVM that has the driver, and close the connection after the context.

    If the login is refused, `read_again` returns the password anew, and it is tried once: it may have been rotated.
    Raises Py4JError of the driver. Show only its `driver_message`.
    """
    java.java.sql.DriverManager.setLoginTimeout(options.timeout)
    connection = _login(java, options, password, read_again)
    try:
        yield connection
    finally:
        connection.close()


def _login(
    java: Any, options: ConnectionOptions, password: Secret | None, read_again: Callable[[], Secret | None]
) -> Any:
    """Return a connection; after a refused login the password is read again, and tried if it has changed."""
    try:
        return _open(java, options, password)
    except Py4JJavaError as error:
        if not is_login(error.java_exception):
            raise
        refused = error
    new_password = read_again()
    if new_password is None or password is None or new_password.reveal() == password.reveal():
        raise refused
    try:
        return _open(java, options, new_password)
    except Py4JJavaError as error:
        if is_login(error.java_exception):  # the caller can hide only the first password
            raise refused from None
        raise error from None


def _open(java: Any, options: ConnectionOptions, password: Secret | None) -> Any:
    properties = java.java.util.Properties()
    for name, value in login(options, password).items():
        properties.setProperty(name, value)
    return java.java.sql.DriverManager.getConnection(options.url, properties)


def is_login(java: Any) -> bool:
    """Return whether a Java exception, or one of its causes, says that the login was refused."""
    return any(state.startswith(_LOGIN) for state in states_of(java))


def states_of(java: Any) -> Sequence[str]:
    """Return the SQLSTATEs of a Java exception and of its causes."""
    return [state for state in map(_state, chain_of(java)) if state is not None]


def chain_of(java: Any) -> Sequence[Any]:
    """Return a Java exception and its causes."""
    chain: list[Any] = []
    while java is not None and len(chain) < 20:
        chain.append(java)
        java = java.getCause()
    return chain


def _state(java: Any) -> str | None:
    """Return the SQLSTATE of an exception; None if it is not from a database."""
    try:
        state = java.getSQLState()
    except Exception:  # noqa: BLE001  # py4j raises its own error for a missing method
        return None
    return None if state is None else str(state)


def login(options: ConnectionOptions, password: Secret | None) -> dict[str, str]:
    """Return the connection properties with the password; the settings take precedence over defaults."""
    properties = {**_UNCHANGED_VALUES.get(options.product, {}), **options.properties}
    if options.user is not None:
        properties["user"] = options.user
    if password is not None:
        properties["password"] = password.reveal().decode("utf-8", "surrogateescape")
    return properties


def bare_url(options: ConnectionOptions) -> str:
    """Return the URL without its properties: one of them may be a secret under an unknown name."""
    return re.split(r"[?;]", options.url)[0]


def driver_message(error: BaseException, options: ConnectionOptions, password: Secret | None) -> str:
    """Return the first line of a driver's message, without the password and the properties of the URL."""
    message = str(error.java_exception.getMessage()) if isinstance(error, Py4JJavaError) else "Java ended"
    message = message.splitlines()[0] if message else "it does not say why"
    message = message.replace(options.url, bare_url(options))
    return message if password is None else password.hidden_in(message)
