"""The rules of tables put behind their source, and checked before anything starts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, TypeAlias

from lakeward.adapters.memory import MemorySource
from lakeward.adapters.memory.shaper import MemoryShaper
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.core.ports import Source
from lakeward.core.settings.secrets import Secret, SecretName
from lakeward.core.shaping.column_rules import Hash
from lakeward.core.shaping.shaped_source import ShapedSource, Shaper, TableRules
from lakeward.entrypoints.settings.configuration import Configured
from lakeward.plugins import Runtime

ReadSecret: TypeAlias = Callable[[SecretName], Secret]

LEAST_SECRET = 16
"""Bytes that a secret has at the least: a shorter one can be guessed."""


def shaped(source: Source[Any], rules: TableRules, spark: Callable[[], Any], secret: ReadSecret) -> Source[Any]:
    """Return the source with the rules of a table behind it, if it has any."""
    return ShapedSource(source, shaper(source, rules, spark, secret)) if rules else source


def shaper(source: Source[Any], rules: TableRules, spark: Callable[[], Any], secret: ReadSecret) -> Shaper[Any]:
    """Return what carries out the rules on the frames of a source."""

    def secret_of(name: str) -> bytes:
        return long_enough(name, secret)

    if isinstance(source, MemorySource):
        names = [rule.key for rule in rules.columns if isinstance(rule, Hash)]
        return MemoryShaper(rules, {name: secret_of(name) for name in names})
    from lakeward.adapters.spark.shaping.shaper import SparkShaper  # noqa: PLC0415  # Spark is imported when it is needed

    return SparkShaper(rules, spark, secret_of)


def check_rules(
    configured: Configured,
    tables: Iterable[TableName],
    source: Source[Any],
    spark: Callable[[], Any],
    runtime: Runtime,
) -> None:
    """Raise ConfigError for rules that Spark does not take, and for secrets that are not there.

    A table of which a settings store says something fails alone.
    """
    for table in tables:
        rules = configured.rules(table)
        if not rules:
            continue
        try:
            shaper(source, rules, spark, runtime.secret).check()
        except ConfigError as error:
            named = ConfigError(f"{table}: {error.what}", found=error.found, todo=error.todo)
            if table not in configured.alone:
                raise named from error
            configured.refuse(table, named)


def long_enough(name: str, secret: ReadSecret) -> bytes:
    """Return the key of a hash by its name, as `env:NAME`; raises ConfigError, which never shows it."""
    found = secret(SecretName.read(name)).reveal()
    if len(found) < LEAST_SECRET:
        raise ConfigError(
            f"the secret {name} is too short",
            todo=f"Let it have {LEAST_SECRET} bytes at least, and be the same in each run.",
        )
    return found
