"""Check all versions of a history against its rules, with one aggregate for each key.

Only numbers and a few keys are returned. The rules are those of each batch (`Versions.violation`), and those that
only other writers can break.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from lakeward.adapters.spark.history.version_rows import STORED, VersionRows
from lakeward.adapters.spark.history.versions import Versions
from lakeward.adapters.spark.sql import keys
from lakeward.adapters.spark.sql.fragments import let, struct
from lakeward.adapters.spark.sql.names import text
from lakeward.core.dimension import Dimension
from lakeward.core.history.version_checks import Finding, HistoryCheck, VersionRule
from lakeward.core.history.versions import Columns
from lakeward.core.schema import Schema

_NEEDED: Final = ("begins", "ends", "went", "cells")
"""The fields of a version that the rules need."""


class _CheckedVersions(Versions):
    """Versions with only the fields that the rules need."""

    @property
    def fields(self) -> Mapping[str, str]:
        return {name: type_ for name, type_ in super().fields.items() if name in _NEEDED}


def check(rows: DataFrame, dimension: Dimension, examples: int) -> HistoryCheck:
    """Check all rows of a history against its rules, and name at most `examples` keys for each broken rule."""
    by_key = _by_key(rows, dimension)
    counts = by_key.groupBy("rule").agg(F.expr("count(*) AS keys"), F.expr("sum(versions) AS versions")).collect()
    broken = {VersionRule(row["rule"]): int(row["keys"]) for row in counts if row["rule"] is not None}
    return HistoryCheck(
        keys=sum(row["keys"] for row in counts),
        versions=sum(row["versions"] for row in counts),
        broken={rule: broken[rule] for rule in VersionRule if rule in broken},
        examples=_examples(by_key, examples) if broken else (),
    )


def _by_key(rows: DataFrame, dimension: Dimension) -> DataFrame:
    """Return for each key its text, its number of versions, the first rule that they break, and where."""
    reader = _version_rows(dimension)
    rows = reader.believed(rows)  # corrected rows were right when they were written
    versions = reader.by_key(reader.read(rows), dimension.key, {}, is_contrary=reader.is_contrary())
    lets = {
        "undated": f"filter({STORED}, s -> s.begins IS NULL)",
        "contrary": f"filter({STORED}, s -> s.is_contrary)",
        "wrong": reader.versions.violation(f"transform({STORED}, s -> s.version)"),
    }
    wrong = let(
        lets,
        f"CASE WHEN size(undated) > 0 THEN {_broken(VersionRule.UNDATED, 'bigint(NULL)')} "
        "WHEN wrong IS NOT NULL THEN wrong "
        f"WHEN size(contrary) > 0 THEN {_broken(VersionRule.CONTRARY, 'contrary[0].begins')} END",
    )
    key = keys.key_text(keys.key_columns(dimension))
    checked = versions.selectExpr(f"{key} AS key", f"size({STORED}) AS versions", f"{wrong} AS wrong")
    begins = reader.instant("wrong.begins")
    return checked.selectExpr("key", "versions", "wrong.rule AS rule", f"string({begins}) AS begins")


def _version_rows(dimension: Dimension) -> VersionRows:
    """Return a reader of rows with only the fields that the rules need."""
    history = dimension.history
    if history is None:
        raise LookupError(f"{dimension.name} keeps no versions")
    tracked = history.tracked(dimension.schema.names, dimension.key)
    columns = tuple(column for column in dimension.schema if column.name in tracked)
    return VersionRows(
        dimension, history, _CheckedVersions(Schema(columns), Columns(tracked), dimension.sequences, 1)
    )


def _broken(rule: VersionRule, begins: str) -> str:
    return struct({"rule": text(rule.value), "begins": begins})


def _examples(by_key: DataFrame, number: int) -> Sequence[Finding]:
    """Return the first keys of each broken rule, rule by rule."""
    place = F.row_number().over(Window.partitionBy("rule").orderBy("key", "begins"))
    named_keys = by_key.where("rule IS NOT NULL").withColumn("place", place).where(f"place <= {number}").collect()
    ordered = sorted(named_keys, key=lambda row: ([*VersionRule].index(VersionRule(row["rule"])), row["place"]))
    return [Finding(row["key"], VersionRule(row["rule"]), row["begins"]) for row in ordered]
