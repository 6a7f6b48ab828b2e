"""Messages in files, one a line: opened, and decoded by the types that are declared or stand beside them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.files.columns import writings
from lakeward.adapters.files.lines import as_messages, read_lines, strange
from lakeward.adapters.files.looking import File, described_by
from lakeward.adapters.files.options import FilesOptions
from lakeward.adapters.files.table import TableFiles
from lakeward.adapters.messages.connect import Described, Version, columns_of
from lakeward.adapters.messages.debezium import Debezium
from lakeward.adapters.messages.decoded import OF_OTHER, OTHER_TABLE, TOMBSTONE, Decoded, to_rows
from lakeward.adapters.messages.message import BODY
from lakeward.adapters.messages.wire import Writing
from lakeward.adapters.spark import names
from lakeward.adapters.spark.events import IS_EVENT, NO_PLACE, Group, has_order
from lakeward.adapters.spark.names import text
from lakeward.adapters.spark.rows import LINE, NAME, RANK, VALUE
from lakeward.core.errors import SchemaConflict
from lakeward.core.events import Operation
from lakeward.core.schema import Schema

NO_TIME: Final = "_lakeward_no_time"
"""Flags a change that tells its place in the log of its source, and no time of the source."""

_UNPLACED: Final = (
    "Only their arrival orders messages that tell no place in the log of their source. If they are flattened, let "
    "ExtractNewRecordState add its fields (`add.fields`: PostgreSQL lsn,sequence; MySQL file,pos,row; SQL Server "
    "commit_lsn; Oracle commit_scn,scn), which docs/plain-files.md lists; where there are none and partitions go "
    'by key, set `places = "arrival"`.'
)

NO_SCHEMA: Final = "no schema stands beside the message, to tell its types"
"""Why a message with a row cannot be read where types are from schemas."""

_UNTIMED: Final = (
    "Messages tell their places in the log of their source, but no time of the source. A log that starts over "
    "looks like messages that are delivered again, and its changes would be dropped as stale. If messages are "
    "flattened, let ExtractNewRecordState add `source.ts_ms` (`add.fields`); `ts_ms` is the time of the connector."
)

_NO_DELETE: Final = (
    "Tombstones are skipped, and no message says that its row is deleted. ExtractNewRecordState makes tombstones "
    "of deletes by default: these are lost unless it has `delete.tombstone.handling.mode = rewrite`. Or read "
    'tombstones as deletes (`tombstones = "delete"`).'
)

_DIGEST: Final = "_lakeward_schema"
_SCHEMA: Final = f"variant_get(try_parse_json({BODY}), '$.schema', 'string')"


def message_rows(table: TableFiles, files: Sequence[File], paths: Sequence[str], places: DataFrame) -> DataFrame:
    """Return the messages of files as rows; `places` has the place of each file in the batch."""
    opened, decoder = opened_messages(table, paths), table.decoder
    if table.links and isinstance(decoder, Debezium):
        ranked = opened.join(F.broadcast(places.select(NAME, RANK)), NAME)
        opened = decoder.linked(ranked, (RANK, LINE)).drop(RANK)
    if table.options.types == "schema":
        return _by_versions(table, opened, {version.digest: version for file in files for version in file.versions})
    return _decoded(table, opened, table.reading.written)


def opened_messages(table: TableFiles, paths: Sequence[str]) -> DataFrame:
    """Return messages taken apart; of those of other tables nothing is kept but that they are there."""
    lines, decoder = read_lines(table.spark(), paths, table.reading), table.decoder
    opened = decoder.opened(as_messages(lines, table.options.line), table.dimension.source)
    return opened.withColumns(
        {name: F.expr(f"CASE WHEN NOT {OF_OTHER} THEN {name} END") for name in (VALUE, decoder.row)}
    )


def _decoded(
    table: TableFiles, opened: DataFrame, written: Mapping[str, Writing], broken: str | None = None
) -> DataFrame:
    decoder, reading = table.decoder, table.reading
    own = strange(decoder.row, table.dimension.schema.names, decoder.prefix)
    found: Decoded = decoder.decoded(reading)
    found = found if broken is None else replace(found, broken=broken)
    also = [decoder.tombstone()] if isinstance(decoder, Debezium) else []
    return to_rows(opened, reading, found, written, own, OTHER_TABLE, *also)


def with_missing_order(events: DataFrame, options: FilesOptions) -> DataFrame:
    """Flag the messages of an event frame that lack what orders them, where places in a log should do so.

    It is the place, or of a change with a place the time, which shows that the log starts over.
    """
    if not options.has_places:
        return events
    is_change = f"{names.OPERATION} != '{Operation.READ.value}'"
    return events.withColumns(
        {
            NO_PLACE: F.expr(f"{IS_EVENT} AND NOT ({has_order()})"),
            NO_TIME: F.expr(f"{IS_EVENT} AND {is_change} AND {has_order()} AND {names.TIME} IS NULL"),
        }
    )


def count_missing_order(found: Sequence[Group]) -> Mapping[str, int]:
    """Return how many messages lack a place, or the time beside it, by what a person should know of that."""
    flags = {NO_PLACE: _UNPLACED, NO_TIME: _UNTIMED}
    counts = {words: sum(group.rows for group in found if flag in group.flags) for flag, words in flags.items()}
    return {words: count for words, count in counts.items() if count}


def count_lost_deletes(table: TableFiles, found: Sequence[Group]) -> Mapping[str, int]:
    """Return how many tombstones of flattened messages were skipped where no message tells a delete.

    The count is by what a person should know of that. Tables without a key keep deleted rows in any case.
    """
    options = table.options
    if options.form != "flattened" or options.tombstones == "delete" or not table.dimension.key:
        return {}
    if any(group.operation == Operation.DELETE.value for group in found):
        return {}
    rows = sum(group.rows for group in found if TOMBSTONE in group.flags)
    return {_NO_DELETE: rows} if rows else {}


def with_versions(table: TableFiles, files: Sequence[File], stands: Schema | None = None) -> Sequence[File]:
    """Return files of messages with the schemas in them, found in one pass.

    A file may have several schemas: its columns are those of all of them, each in the wider type.
    One without has those of the file before it; where none has any, they have the columns of the table as it
    `stands`, and without a table no files are returned. Raises SchemaConflict where rows have no schema at all.
    """
    if table.options.types != "schema":
        return files
    paths = [table.path_of(file.item.name) for file in files]
    return fill_versions(table, files, _versions(table, paths), stands)


def fill_versions(
    table: TableFiles, files: Sequence[File], versions: Mapping[str, Sequence[Version]], stands: Schema | None
) -> Sequence[File]:
    """Return files with their schemas, as `with_versions` does; `versions` are by path below the landing folder."""
    paths = {file.item.name: table.path_of(file.item.name) for file in files}
    base = len(table.folder.base.rstrip("/")) + 1
    described = [described_by(table, file, versions.get(paths[file.item.name][base:], ())) for file in files]
    known = [file.schema for file in described if file.versions]
    if not known and stands is not None:
        known = [_as_declared(stands, table.dimension.schema)]
    filled: list[File] = []
    for file in described if known else ():
        before = filled[-1].schema if filled else known[0]
        filled.append(file if file.versions else replace(file, schema=before))
    return filled


def _as_declared(stands: Schema, declared: Schema) -> Schema:
    """Return the columns of a table, those that are declared as they are declared."""
    new = (item for item in declared if stands.find(item.name) is None)
    return Schema((*(declared.find(item.name) or item for item in stands), *new))


def _versions(table: TableFiles, paths: Sequence[str]) -> Mapping[str, Sequence[Version]]:
    """Return the schemas of messages by file, in the order of their first lines."""
    schemas = (
        opened_messages(table, paths)
        .where(f"NOT {OF_OTHER}")
        .selectExpr(NAME, LINE, f"{_SCHEMA} AS schema", f"{table.decoder.row} IS NOT NULL AS has_row")
    )
    found = schemas.groupBy(NAME, F.expr(f"md5(schema) AS {_DIGEST}")).agg(
        F.first("schema"), F.min(LINE), F.max("has_row")
    )
    in_order = sorted(found.collect(), key=lambda row: int(row[3]))
    return versions_by_file(table, ((*row[:3], row[4]) for row in in_order))


def versions_by_file(
    table: TableFiles, found: Iterable[tuple[str, str, str | None, bool]]
) -> Mapping[str, Sequence[Version]]:
    """Return the schemas of messages by file. Each is given with its file, its digest, and whether a row has it.

    Raises SchemaConflict where rows have no schema at all.
    """
    versions: dict[str, list[Version]] = defaultdict(list)
    without = []
    for name, digest, schema, has_row in found:
        columns = columns_of(schema or "", is_flat=table.options.form == "flattened")
        if columns is not None:
            versions[name].append(Version(digest, columns))
        elif has_row:
            without.append(name)
    if without and not versions:
        raise no_schema(table, without[0])
    return versions


def no_schema(table: TableFiles, name: str) -> SchemaConflict:
    """Say that no message of a batch has the schema that should tell the types of columns."""
    return SchemaConflict(
        f"{table.dimension.name}: no schema stands beside its messages",
        found=f"those of {name} have no `schema` that describes a row",
        todo='Let the converter write schemas (schemas.enable=true), or set `types = "declared"` and declare the '
        f'columns under [tables."{table.dimension.name}".columns]. Nothing of this batch was applied.',
    )


def _by_versions(table: TableFiles, opened: DataFrame, versions: Mapping[str, Version]) -> DataFrame:
    """Read each message as the schema beside it says; a row without one is none that can be read."""
    groups: dict[tuple[Described, ...], list[str]] = defaultdict(list)
    for digest, version in versions.items():
        groups[version.columns].append(digest)
    opened = opened.withColumn(_DIGEST, F.expr(f"md5({_SCHEMA})"))
    frames = [
        _decoded(table, opened.where(_is_one(digests)), _written(table, columns))
        for columns, digests in groups.items()
    ]
    plain = table.decoder.decoded(table.reading).broken
    broken = f"coalesce({plain}, CASE WHEN {table.decoder.row} IS NOT NULL THEN {text(NO_SCHEMA)} END)"
    others = opened.where(f"NOT {_is_one(versions)}")
    frames.append(_decoded(table, others, table.reading.written, broken))
    return reduce(DataFrame.unionByName, frames)


def _is_one(digests: Iterable[str]) -> str:
    return f"coalesce({_DIGEST} IN ({', '.join(['NULL', *map(text, digests)])}), false)"


def _written(table: TableFiles, columns: Iterable[Described]) -> Mapping[str, Writing]:
    described = {column.name: column for column in columns}
    return writings(table.options, table.dimension, table.patterns, described)
