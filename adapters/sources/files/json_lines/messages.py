"""Messages in files, one in each line: parsed, and decoded by declared types or by the schemas in the messages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from importlib.util import find_spec
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakeward.adapters.sources.files.column_mapping import needs_schemas, writings
from lakeward.adapters.sources.files.file_columns import File, described_by
from lakeward.adapters.sources.files.json_lines.envelope_rows import EnvelopeRows
from lakeward.adapters.sources.files.json_lines.frames import as_messages, read_lines, strange
from lakeward.adapters.sources.files.table_files import TableFiles
from lakeward.adapters.sources.messages.connect_schema import SchemaColumn, Version, columns_of
from lakeward.adapters.sources.messages.debezium import IS_TOMBSTONE, Debezium, is_tombstone
from lakeward.adapters.sources.messages.decoded import OF_OTHER, OTHER_TABLE, UNDECODED, Decoded, to_rows
from lakeward.adapters.sources.messages.dms import DmsMessages
from lakeward.adapters.sources.messages.envelopes import IS_DECODED
from lakeward.adapters.sources.messages.json.wire_format import Writing
from lakeward.adapters.sources.messages.message import BODY, KEY, part
from lakeward.adapters.spark.frames.source_rows import LINE, NAME, RANK, VALUE
from lakeward.adapters.spark.sql.names import text
from lakeward.core.errors import SchemaConflict
from lakeward.core.schema import Schema

NO_SCHEMA: Final = "no schema stands beside the message, to tell its types"
"""Why a message with a row cannot be read if types are taken from schemas."""

_HAS_SCHEMA: Final = r'"schema\\*"\s*:\s*\{'
"""Matches a line that may have a schema; in a record the message may be a JSON text, whose quotes are escaped."""

_DIGEST: Final = "_lakeward_schema"
_SCHEMA: Final = part(BODY, "schema")
OF_KEY: Final = "key "
"""The prefix of the digest of a key's schema, by which the key of a tombstone that deletes is read."""

_KEY_SCHEMA: Final = part(KEY, "schema")


def message_rows(table: TableFiles, files: Sequence[File], paths: Sequence[str], places: DataFrame) -> DataFrame:
    """Return the messages of files as rows; `places` has the place of each file in the batch.

    If there are many, Arrow decodes the messages of the usual form, and the others are flagged. SQL decodes these
    only once it is known that there are some, because Java needs long to compile that SQL. Without pandas PySpark
    cannot send Arrow batches to Python, and SQL decodes all messages.
    """
    usual = EnvelopeRows.of(table) if table.are_many and find_spec("pandas") is not None else None
    if usual is None:
        return _rows_of(table, files, paths, places, opened_messages(table, paths))
    decoded = usual.decoded(read_lines(table.spark(), paths, table.reading))
    rows = usual.rows(table, decoded)
    if not table.has_others:
        return rows
    lines = decoded.where(f"NOT {IS_DECODED}").select(VALUE, NAME, LINE)
    others = _rows_of(table, files, paths, places, _opened(table, lines))
    return rows.where(f"NOT {UNDECODED}").unionByName(others.selectExpr("*", f"false AS {UNDECODED}"))


def _rows_of(
    table: TableFiles, files: Sequence[File], paths: Sequence[str], places: DataFrame, opened: DataFrame
) -> DataFrame:
    decoder = table.decoder
    if table.links and isinstance(decoder, Debezium):
        ranked = opened.join(F.broadcast(places.select(NAME, RANK)), NAME)
        opened = decoder.link(ranked, (RANK, LINE)).drop(RANK)
    if table.options.types == "schema":
        return _by_versions(table, opened, {version.digest: version for file in files for version in file.versions})
    return _by_versions(table, opened, _schemas_beside(table, paths))


def opened_messages(table: TableFiles, paths: Sequence[str]) -> DataFrame:
    """Return parsed messages; those of other tables are flagged, and their contents are dropped."""
    return _opened(table, read_lines(table.spark(), paths, table.reading))


def _opened(table: TableFiles, lines: DataFrame) -> DataFrame:
    decoder = table.decoder
    opened = decoder.parse(as_messages(lines, table.options.line), table.dimension.source)
    return opened.withColumns(
        {name: F.expr(f"CASE WHEN NOT {OF_OTHER} THEN {name} END") for name in (VALUE, decoder.row)}
    )


def _decoded(
    table: TableFiles, opened: DataFrame, written: Mapping[str, Writing], broken: str | None = None
) -> DataFrame:
    decoder, reading = table.decoder, table.reading
    own = strange(decoder.row, table.dimension.schema.names, decoder.not_columns)
    decoded: Decoded = decoder.decode(reading)
    decoded = decoded if broken is None else replace(decoded, broken=broken)
    also = [decoder.rows_gone()] if isinstance(decoder, DmsMessages) else _of_debezium(decoder)
    return to_rows(opened, reading, decoded, written, own, OTHER_TABLE, *also)


def _of_debezium(decoder: Debezium) -> Sequence[str]:
    """Return the flags of Debezium messages, and connector and database, as SQL with the names of the columns."""
    flags = decoder.tombstone(), decoder.has_deleted(), decoder.old_key_unknown(), decoder.key_half()
    return *flags, decoder.database(), decoder.initial()


def with_versions(table: TableFiles, files: Sequence[File], stands: Schema | None = None) -> Sequence[File]:
    """Return files of messages with their schemas, found in one pass.

    A file with several schemas has the columns of all of them, each in the wider type. A file without a schema has
    the columns of the file before it, or, if no file has a schema, those of the table (`stands`). Without a table
    no files are returned then. Raises SchemaConflict if rows have no schema at all.
    """
    if table.options.types != "schema":
        return files
    paths = [table.path_of(file.item.name) for file in files]
    return fill_versions(table, files, _versions(table, paths), stands)


def fill_versions(
    table: TableFiles, files: Sequence[File], versions: Mapping[str, Sequence[Version]], stands: Schema | None
) -> Sequence[File]:
    """Return files with schemas, as `with_versions` does; `versions` are by file path below the landing folder."""
    paths = {file.item.name: table.path_of(file.item.name) for file in files}
    base = len(table.folder.base.rstrip("/")) + 1
    own = [versions.get(paths[file.item.name][base:], ()) for file in files]
    if table.are_one:
        every = {version.digest: version for group in own for version in group}
        own = [tuple(every.values())] * len(files)
    described = [described_by(table, file, group) for file, group in zip(files, own, strict=True)]
    schemas = [file.schema for file in described if file.versions]
    if not schemas and stands is not None:
        schemas = [_as_declared(stands, table.dimension.schema)]
    filled: list[File] = []
    for file in described if schemas else ():
        before = filled[-1].schema if filled else schemas[0]
        filled.append(file if file.versions else replace(file, schema=before))
    return filled


def _as_declared(stands: Schema, declared: Schema) -> Schema:
    """Return the columns of a table, with declared types where columns are declared."""
    new = (item for item in declared if stands.find(item.name) is None)
    return Schema((*(declared.find(item.name) or item for item in stands), *new))


def _versions(table: TableFiles, paths: Sequence[str]) -> Mapping[str, Sequence[Version]]:
    """Return the schemas of messages by file, in the order of their first lines."""
    in_order = sorted(_find_schemas(table, opened_messages(table, paths)), key=lambda row: row[3])
    return versions_by_file(table, ((*row[:3], row[4]) for row in in_order))


def _schemas_beside(table: TableFiles, paths: Sequence[str]) -> Mapping[str, Version]:
    """Return the schemas of messages whose columns are declared, by their digests.

    Messages are not parsed for it, so schemas of other tables may be among them.
    """
    if not needs_schemas(table.options, table.dimension):
        return {}
    lines = read_lines(table.spark(), paths, table.reading).where(f"{VALUE} RLIKE {text(_HAS_SCHEMA)}")
    is_of_key = is_tombstone() if table.options.reads_keys else "false"
    schemas = as_messages(lines, table.options.line).selectExpr(
        f"CASE WHEN {is_of_key} THEN '{OF_KEY}' ELSE '' END AS kind",
        f"CASE WHEN {is_of_key} THEN {_KEY_SCHEMA} ELSE {_SCHEMA} END AS schema",
    )
    rows = schemas.groupBy(F.expr("concat(kind, md5(schema))")).agg(F.first("schema")).collect()
    return versions_of(table, ((row[0], row[1]) for row in rows if row[0] is not None))


def versions_of(table: TableFiles, schemas: Iterable[tuple[str, str | None]]) -> Mapping[str, Version]:
    """Return the schemas that describe rows, by their digests; `schemas` are digests with texts."""
    is_flat = table.options.form == "flattened"
    columns_by_digest = {
        digest: columns_of(schema or "", is_flat=is_flat or digest.startswith(OF_KEY)) for digest, schema in schemas
    }
    return {
        digest: Version(digest, columns) for digest, columns in columns_by_digest.items() if columns is not None
    }


def _find_schemas(table: TableFiles, opened: DataFrame) -> Sequence[tuple[str, str, str | None, int, bool]]:
    """Return the schemas of messages: file, digest, text, first line, and whether a row has it.

    Messages of other tables are dropped here and not by a filter. Spark would push a filter below the parsing,
    merge it into one expression, and take minutes to compare the parts of that.
    """
    own = f"CASE WHEN NOT {OF_OTHER} THEN {_SCHEMA} END AS schema"
    schemas = opened.selectExpr(NAME, LINE, own, f"{table.decoder.row} IS NOT NULL AS has_row", OF_OTHER)
    groups = schemas.groupBy(OF_OTHER, NAME, F.expr(f"md5(schema) AS {_DIGEST}")).agg(
        F.first("schema"), F.min(LINE), F.max("has_row")
    )
    return [(row[1], row[2], row[3], int(row[4]), row[5]) for row in groups.collect() if not row[0]]


def versions_by_file(
    table: TableFiles, schemas: Iterable[tuple[str, str, str | None, bool]]
) -> Mapping[str, Sequence[Version]]:
    """Return the schemas of messages by file; `schemas` has of each its file, digest, text and whether it has rows.

    Raises SchemaConflict if rows have no schema at all.
    """
    versions: dict[str, list[Version]] = defaultdict(list)
    without = []
    for name, digest, schema, has_row in schemas:
        columns = columns_of(schema or "", is_flat=table.options.form == "flattened")
        if columns is not None:
            versions[name].append(Version(digest, columns))
        elif has_row:
            without.append(name)
    if without and not versions:
        raise no_schema(table, without[0])
    return versions


def no_schema(table: TableFiles, name: str) -> SchemaConflict:
    """Return the error for a batch whose messages have no schema although types are taken from schemas."""
    return SchemaConflict(
        f"{table.dimension.name}: no schema stands beside its messages",
        found=f"those of {name} have no `schema` that describes a row",
        todo='Let the converter write schemas (schemas.enable=true), or set `types = "declared"` and declare the '
        f'columns under [tables."{table.dimension.name}".columns]. Nothing of this batch was applied.',
    )


def _by_versions(table: TableFiles, opened: DataFrame, versions: Mapping[str, Version]) -> DataFrame:
    """Decode each message by its schema; if types are taken from schemas, a message without one is unreadable."""
    reading, groups = table.reading, defaultdict[tuple[Writing, ...], list[str]](list)
    plain = tuple(reading.written.values())
    for digest, version in versions.items():
        groups[tuple(_written(table, version.columns).values())].append(digest)
    broken = None
    if table.options.types == "schema":
        usual = table.decoder.decode(reading).broken
        broken = f"coalesce({usual}, CASE WHEN {table.decoder.row} IS NOT NULL THEN {text(NO_SCHEMA)} END)"
    else:
        groups.pop(plain, None)
    if not groups:
        return _decoded(table, opened, reading.written, broken)
    digest = f"md5({_SCHEMA})"
    if table.options.reads_keys:
        digest = f"coalesce({digest}, CASE WHEN {IS_TOMBSTONE} THEN concat('{OF_KEY}', md5({_KEY_SCHEMA})) END)"
    opened = opened.withColumn(_DIGEST, F.expr(digest))
    frames = [
        _decoded(table, opened.where(_is_one(digests)), dict(zip(reading.written, written, strict=True)))
        for written, digests in groups.items()
    ]
    others = opened.where(f"NOT {_is_one([digest for digests in groups.values() for digest in digests])}")
    frames.append(_decoded(table, others, reading.written, broken))
    return reduce(DataFrame.unionByName, frames)


def _is_one(digests: Iterable[str]) -> str:
    return f"coalesce({_DIGEST} IN ({', '.join(['NULL', *map(text, digests)])}), false)"


def _written(table: TableFiles, columns: Iterable[SchemaColumn]) -> Mapping[str, Writing]:
    described = {column.name: column for column in columns}
    return writings(table.options, table.dimension, table.patterns, described)
