"""A version of a Delta table that has the files, the columns and the progress of an earlier one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import deltalake
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.formats.delta.java import Jvm
from lakeward.adapters.formats.delta.writes.transaction import commit, with_columns
from lakeward.core.errors import TableError
from lakeward.core.ports import Version

_MODE: Final = "delta.columnMapping.mode"
_ID: Final = "delta.columnMapping.id"
_PHYSICAL: Final = "delta.columnMapping.physicalName"
_KEY: Final = ("path", "coalesce(to_json(deletionVector), '') AS vector")
"""What tells the files of versions from each other: a file with another deletion vector is another."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a version, as the JSON of its log, and those of them that rows are partitioned by."""

    schema: str
    partitions: Sequence[str]


def columns_of_then(what: str, then: deltalake.DeltaTable, now: deltalake.DeltaTable) -> Columns:
    """Return the columns that a table had, over the files that it has now; raises TableError where it cannot be.

    A table whose columns are mapped since calls those of then by what they are called in its files.
    """
    schema, current = (json.loads(table.schema().to_json()) for table in (then, now))
    partitions = then.metadata().partition_columns
    before, after = (table.metadata().configuration.get(_MODE, "none") for table in (then, now))
    if (before, after) == ("none", "name"):
        try:
            schema = _mapped(schema, current)
        except KeyError as error:
            raise _refused(what, then, f"the column {error.args[0]!r} of then was dropped since") from error
    elif before != after:
        raise _refused(what, then, f"columns were mapped by {before!r} then, and are by {after!r} now")
    if _physical(schema, partitions) != _physical(current, now.metadata().partition_columns):
        raise _refused(what, then, "rows were partitioned by other columns then")
    return Columns(json.dumps(schema), partitions)


def _refused(what: str, then: deltalake.DeltaTable, found: str) -> TableError:
    return TableError(
        f"{what} cannot be taken back to version {then.version()}",
        found=found,
        todo=f"Nothing was changed. Name a later one (`lakeward rollback {what}` lists them), or load the table "
        f"anew: `lakeward reload {what}`.",
    )


def _mapped(type_: Any, now: Any) -> Any:
    """Return a type of columns that were not mapped with the mapping that they have now; KeyError for one gone."""
    match type_:
        case {"type": "struct", "fields": fields}:
            found = {field["metadata"][_PHYSICAL]: field for field in now["fields"]}
            return {**type_, "fields": [_mapped_field(field, found[field["name"]]) for field in fields]}
        case {"type": "array", "elementType": element}:
            return {**type_, "elementType": _mapped(element, now["elementType"])}
        case {"type": "map", "keyType": key, "valueType": value}:
            return {**type_, "keyType": _mapped(key, now["keyType"]), "valueType": _mapped(value, now["valueType"])}
        case _:
            return type_


def _mapped_field(field: Mapping[str, Any], now: Mapping[str, Any]) -> Mapping[str, Any]:
    mapping = {name: now["metadata"][name] for name in (_ID, _PHYSICAL)}
    return {**field, "type": _mapped(field["type"], now["type"]), "metadata": {**field["metadata"], **mapping}}


def _physical(schema: Mapping[str, Any], names: Sequence[str]) -> Sequence[str]:
    """Return what columns are called in the files."""
    found = {field["name"]: field["metadata"].get(_PHYSICAL, field["name"]) for field in schema["fields"]}
    return [found[name] for name in names]


def restore(jvm: Jvm, path: str, now: Any, version: Version, columns: Columns | None) -> None:
    """Commit it behind the version `now`; whatever was committed since is a conflict."""
    then = jvm.snapshot_at(path, int(version.name))
    transaction = jvm.log(path).startTransaction(jvm.none, jvm.some(now))
    transaction.readWholeTable()
    if columns is not None:
        with_columns(jvm, transaction, columns.schema, columns.partitions)
    added = _lacking(jvm, then, now)
    removed = [file.remove() for file in _lacking(jvm, now, then)]
    operation = getattr(jvm.delta, "DeltaOperations$Restore")(jvm.some(int(version.name)), jvm.none)
    commit(jvm, transaction, [*added, *removed], version.progress, {}, operation)


def _lacking(jvm: Jvm, one: Any, other: Any) -> Sequence[Any]:
    """Return the files of a version that another does not have, as ones that change what a reader sees."""
    files = one.allFiles()
    every = DataFrame(files.toDF(), jvm.spark).selectExpr("*", _KEY[1])
    others = DataFrame(other.allFiles().toDF(), jvm.spark).selectExpr(*_KEY)
    found = every.join(others, ["path", "vector"], "left_anti").withColumn("dataChange", F.lit(True)).drop("vector")
    return list(getattr(found._jdf, "as")(files.encoder()).collect())
