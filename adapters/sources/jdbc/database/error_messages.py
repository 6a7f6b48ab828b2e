"""What went wrong in a database, in words that have no secret in them."""

from __future__ import annotations

from typing import Any, Final

from lakeward.adapters.catalogues.connection import ConnectionOptions, bare_url, chain_of, is_login, states_of
from lakeward.adapters.spark.session.errors import is_cut_off, root_cause
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError, LakewardError, SourceError, StoreUnreachable
from lakeward.core.settings.secrets import Secret

_AWAY: Final = ("08", "57P")
"""A connection that cannot be made or was lost, and a server that is shut down (PostgreSQL)."""

_NO_DRIVER: Final = "No suitable driver"
"""What java.sql.DriverManager says of a URL that no driver takes; its SQLSTATE is that of a connection."""

_OF_NETWORK: Final = "java.net."


def failure_of(
    error: BaseException,
    table: TableName,
    options: ConnectionOptions,
    password: Secret | None,
    section: str = "source",
) -> BaseException:
    """Return what to say where a driver or Spark failed; the error itself where Java does not answer any more.

    `section` is where the settings name the database.
    """
    java = _origin(error)
    if java is None:
        return error if is_cut_off(error) else _read_error(table, options, str(error), password)
    states = states_of(java)
    said = _hide_secrets(root_cause(error)[1], options, password)
    if said.startswith(_NO_DRIVER):
        return _driver_error(options, said, section)
    if is_login(java):
        return _login_error(options, said, section)
    is_of_network = any(_class(one).startswith(_OF_NETWORK) for one in chain_of(java))
    if is_of_network or any(state.startswith(_AWAY) for state in states):
        return _away_error(options, said)
    return _read_error(table, options, said, password)


def _origin(error: BaseException) -> Any:
    """Return the exception of Java behind an error, None where there is none."""
    return getattr(error, "java_exception", None) or getattr(error, "_origin", None)


def _class(java: Any) -> str:
    return str(java.getClass().getName())


def _hide_secrets(said: str, options: ConnectionOptions, password: Secret | None) -> str:
    """Return the first line of a message without the password and the properties of the URL."""
    first = next((line.strip() for line in said.splitlines() if line.strip()), "it does not say why")
    first = first.replace(options.url, bare_url(options))
    return first if password is None else password.hidden_in(first)


def _driver_error(options: ConnectionOptions, said: str, section: str) -> LakewardError:
    return ConfigError(
        f"Java has no driver for {bare_url(options)}",
        found=said,
        todo=f"Nothing was applied. Name its jars by `drivers` under [{section}]; where a platform has started "
        "Spark, put them on the class path of its driver.",
    )


def _login_error(options: ConnectionOptions, said: str, section: str) -> LakewardError:
    return SourceError(
        f"the database {bare_url(options)} lets nobody in",
        found=said,
        todo=f"Nothing was applied. Correct `user` and `password` under [{section}].",
    )


def _away_error(options: ConnectionOptions, said: str) -> LakewardError:
    return StoreUnreachable(
        f"the database {bare_url(options)} does not answer",
        found=said,
        todo="Nothing of what it was asked for is applied. Look whether it runs and can be reached from here, then "
        "run again.",
    )


def _read_error(table: TableName, options: ConnectionOptions, said: str, password: Secret | None) -> LakewardError:
    return SourceError(
        f"{table}: its rows cannot be read from {bare_url(options)}",
        found=_hide_secrets(said, options, password),
        todo="Nothing of what was read is applied. Correct what the database or Spark says; may the user read the "
        "table?",
    )
