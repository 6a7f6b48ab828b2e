"""A version of a Delta table with the files, columns and progress of an earlier one."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import deltalake
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.formats.delta.java import Jvm
from lakeward.adapters.formats.delta.metadata.column_mapping import ID, MODE, PHYSICAL_NAME
from lakeward.adapters.formats.delta.writes.transaction import commit, with_columns
from lakeward.core.errors import TableError
from lakeward.core.ports import Version

_KEY: Final = ("path", "coalesce(to_json(deletionVector), '') AS vector")
"""What identifies a file in a version: its path and its deletion vector."""


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a version, as the JSON of its log, and its partition columns."""

    schema: str
    partitions: Sequence[str]


def columns_of_then(table_name: str, earlier: deltalake.DeltaTable, now: deltalake.DeltaTable) -> Columns:
    """Return the columns of an earlier version, for the files of now. Raises TableError if that is not possible.

    If columns were mapped since, the earlier names refer to the names in files.
    """
    schema, current = (json.loads(table.schema().to_json()) for table in (earlier, now))
    partitions = earlier.metadata().partition_columns
    before, after = (table.metadata().configuration.get(MODE, "none") for table in (earlier, now))
    if (before, after) == ("none", "name"):
        try:
            schema = _mapped(schema, current)
        except KeyError as error:
            raise _refused(
                table_name, earlier, f"the column {error.args[0]!r} of then was dropped since"
            ) from error
    elif before != after:
        raise _refused(table_name, earlier, f"columns were mapped by {before!r} then, and are by {after!r} now")
    if _physical(schema, partitions) != _physical(current, now.metadata().partition_columns):
        raise _refused(table_name, earlier, "rows were partitioned by other columns then")
    return Columns(json.dumps(schema), partitions)


def _refused(table_name: str, earlier: deltalake.DeltaTable, found: str) -> TableError:
    return TableError(
        f"{table_name} cannot be rolled back to version {earlier.version()}",
        found=found,
        todo=f"Nothing was changed. Name a later one (`lakeward rollback {table_name}` lists them), or load the "
        f"table anew: `lakeward reload {table_name}`.",
    )


def _mapped(type_: Any, now: Any) -> Any:
    """Return a type of unmapped columns with their present mapping. Raises KeyError for a dropped column."""
    match type_:
        case {"type": "struct", "fields": fields}:
            fields_now = {field["metadata"][PHYSICAL_NAME]: field for field in now["fields"]}
            return {**type_, "fields": [_mapped_field(field, fields_now[field["name"]]) for field in fields]}
        case {"type": "array", "elementType": element}:
            return {**type_, "elementType": _mapped(element, now["elementType"])}
        case {"type": "map", "keyType": key, "valueType": value}:
            return {**type_, "keyType": _mapped(key, now["keyType"]), "valueType": _mapped(value, now["valueType"])}
        case _:
            return type_


def _mapped_field(field: Mapping[str, Any], now: Mapping[str, Any]) -> Mapping[str, Any]:
    mapping = {name: now["metadata"][name] for name in (ID, PHYSICAL_NAME)}
    return {**field, "type": _mapped(field["type"], now["type"]), "metadata": {**field["metadata"], **mapping}}


def _physical(schema: Mapping[str, Any], names: Sequence[str]) -> Sequence[str]:
    """Return the names of columns in files."""
    names_in_files = {
        field["name"]: field["metadata"].get(PHYSICAL_NAME, field["name"]) for field in schema["fields"]
    }
    return [names_in_files[name] for name in names]


def restore(jvm: Jvm, path: str, now: Any, version: Version, columns: Columns | None) -> None:
    """Commit the restored version after the version `now`. Any commit since then is a conflict."""
    earlier = jvm.snapshot_at(path, int(version.name))
    transaction = jvm.log(path).startTransaction(jvm.none, jvm.some(now))
    transaction.readWholeTable()
    if columns is not None:
        with_columns(jvm, transaction, columns.schema, columns.partitions)
    added = _lacking(jvm, earlier, now)
    removed = [file.remove() for file in _lacking(jvm, now, earlier)]
    operation = getattr(jvm.delta, "DeltaOperations$Restore")(jvm.some(int(version.name)), jvm.none)
    commit(jvm, transaction, [*added, *removed], version.progress, {}, operation)


def _lacking(jvm: Jvm, one: Any, other: Any) -> Sequence[Any]:
    """Return the files of a version that another does not have, as files that change data."""
    files = one.allFiles()
    files_of_one = DataFrame(files.toDF(), jvm.spark).selectExpr("*", _KEY[1])
    files_of_other = DataFrame(other.allFiles().toDF(), jvm.spark).selectExpr(*_KEY)
    lacking = (
        files_of_one.join(files_of_other, ["path", "vector"], "left_anti")
        .withColumn("dataChange", F.lit(True))
        .drop("vector")
    )
    return list(getattr(lacking._jdf, "as")(files.encoder()).collect())
