"""The rules of tables put behind their source, and checked before anything starts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from lakeward.adapters.memory import MemorySource
from lakeward.adapters.memory.shaping import MemoryShaper
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.core.ports import Source
from lakeward.core.rules import Hash
from lakeward.core.shaping import ShapedSource, Shaper, TableRules
from lakeward.entrypoints.settings import Configured

LEAST_SECRET = 16
"""Bytes that a secret has at the least: a shorter one can be guessed."""


def shaped(source: Source[Any], rules: TableRules, spark: Callable[[], Any]) -> Source[Any]:
    """Return the source with the rules of a table behind it, if it has any."""
    return ShapedSource(source, shaper(source, rules, spark)) if rules else source


def shaper(source: Source[Any], rules: TableRules, spark: Callable[[], Any]) -> Shaper[Any]:
    """Return what carries out the rules on the frames of a source."""
    if isinstance(source, MemorySource):
        names = [rule.key for rule in rules.columns if isinstance(rule, Hash)]
        return MemoryShaper(rules, {name: secret_of(name) for name in names})
    from lakeward.adapters.spark.shaping import SparkShaper  # noqa: PLC0415  # Spark is imported when it is needed

    return SparkShaper(rules, spark, secret_of)


def check_rules(
    configured: Configured, tables: Iterable[TableName], source: Source[Any], spark: Callable[[], Any]
) -> None:
    """Raise ConfigError for rules that Spark does not take, and for secrets that are not there."""
    for table in tables:
        rules = configured.rules(table)
        if not rules:
            continue
        try:
            shaper(source, rules, spark).check()
        except ConfigError as error:
            raise ConfigError(f"{table}: {error.what}", found=error.found, todo=error.todo) from error


def secret_of(name: str, environment: Mapping[str, str] | None = None) -> bytes:
    """Return a secret by its name, `env:NAME`; raises ConfigError, which never shows it."""
    variable = name.removeprefix("env:")
    found = (os.environ if environment is None else environment).get(variable, "")
    secret = found.encode("utf-8", "surrogateescape")
    if len(secret) < LEAST_SECRET:
        raise ConfigError(
            f"the secret {name} is " + ("not there" if not secret else "too short"),
            todo=f"Set the environment variable {variable} to a secret of {LEAST_SECRET} bytes at least, the same "
            "in each run.",
        )
    return secret
