"""Column and quality rules of tables: applied to the frames of their source, and checked before a run."""

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
from lakeward.entrypoints.settings.configuration import Configuration
from lakeward.plugins import Runtime

ReadSecret: TypeAlias = Callable[[SecretName], Secret]

LEAST_SECRET = 16
"""Least number of bytes of a secret: a shorter one can be guessed."""


def shaped(source: Source[Any], rules: TableRules, spark: Callable[[], Any], secret: ReadSecret) -> Source[Any]:
    """Return the source wrapped by the rules of a table, or the source itself if it has no rules."""
    return ShapedSource(source, shaper(source, rules, spark, secret)) if rules else source


def shaper(source: Source[Any], rules: TableRules, spark: Callable[[], Any], secret: ReadSecret) -> Shaper[Any]:
    """Return the shaper that applies the rules to the frames of a source."""

    def secret_of(name: str) -> bytes:
        return read_hash_key(name, secret)

    if isinstance(source, MemorySource):
        names = [rule.key for rule in rules.columns if isinstance(rule, Hash)]
        return MemoryShaper(rules, {name: secret_of(name) for name in names})
    from lakeward.adapters.spark.shaping.shaper import SparkShaper  # noqa: PLC0415  # imports Spark

    return SparkShaper(rules, spark, secret_of)


def check_rules(
    configured: Configuration,
    tables: Iterable[TableName],
    source: Source[Any],
    spark: Callable[[], Any],
    runtime: Runtime,
) -> None:
    """Raise ConfigError for rules that Spark rejects, and for missing secrets.

    A table with settings in a settings store fails alone.
    """
    for table in tables:
        rules = configured.rules(table)
        if not rules:
            continue
        try:
            shaper(source, rules, spark, runtime.secret).check()
        except ConfigError as error:
            table_error = ConfigError(f"{table}: {error.what}", found=error.found, todo=error.todo)
            if table not in configured.stored_tables:
                raise table_error from error
            configured.refuse(table, table_error)


def read_hash_key(name: str, secret: ReadSecret) -> bytes:
    """Return the key of a hash rule by its name, such as `env:NAME`; raises ConfigError if it is too short."""
    key = secret(SecretName.read(name)).reveal()
    if len(key) < LEAST_SECRET:
        raise ConfigError(
            f"the secret {name} is too short",
            todo=f"Use one of at least {LEAST_SECRET} bytes, the same in each run.",
        )
    return key
