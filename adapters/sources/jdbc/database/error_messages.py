"""Error messages of databases, without secrets."""

from __future__ import annotations

from typing import Any, Final

from lakeward.adapters.catalogues.connection import ConnectionOptions, bare_url, chain_of, is_login, states_of
from lakeward.adapters.spark.session.errors import is_cut_off, root_cause
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError, LakewardError, SourceError, StoreUnreachable
from lakeward.core.settings.secrets import Secret

_CONNECTION_STATES: Final = ("08", "57P")
"""SQLSTATE prefixes of a connection that fails or was lost, and of a server that shuts down (PostgreSQL)."""

_NO_DRIVER: Final = "No suitable driver"
"""The message of java.sql.DriverManager for a URL that no driver accepts; its SQLSTATE is that of a connection."""

_NETWORK_PACKAGE: Final = "java.net."


def failure_of(
    error: BaseException,
    table: TableName,
    options: ConnectionOptions,
    password: Secret | None,
    section: str = "source",
) -> BaseException:
    """Return the error to raise where a driver or Spark failed; the same error if the JVM does not answer.

    `section` is where the settings name the database.
    """
    java = _origin(error)
    if java is None:
        return error if is_cut_off(error) else _read_error(table, options, str(error), password)
    states = states_of(java)
    message = _hide_secrets(root_cause(error)[1], options, password)
    if message.startswith(_NO_DRIVER):
        return _driver_error(options, message, section)
    if is_login(java):
        return _login_error(options, message, section)
    is_of_network = any(_class_name(one).startswith(_NETWORK_PACKAGE) for one in chain_of(java))
    if is_of_network or any(state.startswith(_CONNECTION_STATES) for state in states):
        return _unreachable_error(options, message)
    return _read_error(table, options, message, password)


def _origin(error: BaseException) -> Any:
    """Return the Java exception of an error, or None if there is none."""
    return getattr(error, "java_exception", None) or getattr(error, "_origin", None)


def _class_name(java: Any) -> str:
    return str(java.getClass().getName())


def _hide_secrets(message: str, options: ConnectionOptions, password: Secret | None) -> str:
    """Return the first line of a message without the password and the properties of the URL.

    An exception of Java without a message has the text None.
    """
    lines = map(str.strip, message.splitlines())
    first = next((line for line in lines if line not in ("", "None")), "it does not say why")
    first = first.replace(options.url, bare_url(options))
    return first if password is None else password.hidden_in(first)


def _driver_error(options: ConnectionOptions, message: str, section: str) -> LakewardError:
    return ConfigError(
        f"Java has no driver for {bare_url(options)}",
        found=message,
        todo=f"Nothing was applied. Name its jars by `drivers` under [{section}]; where a platform has started "
        "Spark, put them on the class path of its driver.",
    )


def _login_error(options: ConnectionOptions, message: str, section: str) -> LakewardError:
    return SourceError(
        f"the database {bare_url(options)} lets nobody in",
        found=message,
        todo=f"Nothing was applied. Correct `user` and `password` under [{section}].",
    )


def _unreachable_error(options: ConnectionOptions, message: str) -> LakewardError:
    return StoreUnreachable(
        f"the database {bare_url(options)} does not answer",
        found=message,
        todo="Nothing of what it was asked for is applied. Look whether it runs and can be reached from here, then "
        "run again.",
    )


def _read_error(
    table: TableName, options: ConnectionOptions, message: str, password: Secret | None
) -> LakewardError:
    return SourceError(
        f"{table}: its rows cannot be read from {bare_url(options)}",
        found=_hide_secrets(message, options, password),
        todo="Nothing of what was read is applied. Correct what the database or Spark says; may the user read the "
        "table?",
    )
