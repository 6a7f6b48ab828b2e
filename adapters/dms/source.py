"""The source `dms`: files of AWS DMS in a folder or a bucket, full load and changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from pathlib import PurePosixPath
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeward.adapters.dms.options import DmsOptions
from lakeward.adapters.dms.sharing import SharedFiles
from lakeward.adapters.dms.splitting import refuse_shifted
from lakeward.adapters.dms.transactions import find_layout as find_shared_layout
from lakeward.adapters.landed.csv import fields_in
from lakeward.adapters.landed.csv_frames import WHOLE_FILES, read_csv, typed_rows
from lakeward.adapters.landed.earlier import names_in_headers
from lakeward.adapters.landed.folder import Folder
from lakeward.adapters.landed.footers import OF_DMS, Footer, Form, footer, refuse_unknown
from lakeward.adapters.landed.kept import KeptFrames
from lakeward.adapters.landed.layout import OP, OPERATIONS, Expected, Layout, find_layout, has_both
from lakeward.adapters.landed.mending import csv_cells, is_parquet, json_cells, mended_rows
from lakeward.adapters.landed.parquet import read_parquet
from lakeward.adapters.landed.places import FileName, format_of
from lakeward.adapters.landed.reading import Numbered, Reading, file_frame
from lakeward.adapters.landed.taking import choose, still_alike, to_batch
from lakeward.adapters.landed.unread import not_read
from lakeward.adapters.spark import names
from lakeward.adapters.spark.casts import check_pattern, check_text
from lakeward.adapters.spark.errors import FAILURES, full_text, unreachable
from lakeward.adapters.spark.events import (
    AHEAD,
    SKIPPED,
    Group,
    by_object,
    facts,
    lift_places,
    steps_back,
    survey,
    with_ahead,
)
from lakeward.adapters.spark.names import column
from lakeward.adapters.spark.rows import MALFORMED, TORN, to_events
from lakeward.adapters.spark.truncates import truncation
from lakeward.core.clock import believed
from lakeward.core.dimension import ORDERED, Dimension, Lateness, Match, Ordered, TableName, Within
from lakeward.core.errors import ConfigError, SchemaConflict, SourceError
from lakeward.core.events import Position, Sequences
from lakeward.core.evolution import Policy, compare
from lakeward.core.facts import Capability
from lakeward.core.ledger import Limits, Past, SourceObject, Taken
from lakeward.core.nearest import nearest
from lakeward.core.ports import Batch, Cells, Entry
from lakeward.core.remaking import Remaking
from lakeward.core.schema import UNDECLARED, WIDER, Column, Schema, Type, is_within
from lakeward.plugins.registry import clock

_KINDS: Final = {"$AR_H_CHANGE_SEQ": Sequences.UNIQUE, "$AR_H_STREAM_POSITION": Sequences.PLACES}
_DAY: Final = 24 * 3600 * 1_000_000


@dataclass(frozen=True, slots=True)
class _File:
    """A file of a batch and what its beginning says."""

    object: SourceObject
    name: FileName
    layout: Layout | None = None
    schema: Schema | None = None
    forms: tuple[tuple[str, Form], ...] = ()

    def has_op(self, op_column: str) -> bool:
        if self.layout is not None:
            return OP in self.layout.columns
        return self.schema is not None and op_column in self.schema.names


@dataclass(slots=True)
class DmsSource:
    """Files of AWS DMS. A batch is read whole, once, before anything is written.

    `shared` are the files of transactions, where the endpoint writes such.
    """

    options: DmsOptions
    folder: Folder
    spark: Callable[[], SparkSession]
    patterns: Mapping[TableName, Mapping[str, str]] = field(default_factory=dict)
    now: Callable[[], int] = clock
    shared: SharedFiles | None = None
    tables_with_torn_rows: set[TableName] = field(default_factory=set)
    tables_with_checked_formats: set[TableName] = field(default_factory=set)
    headers: dict[TableName, Collection[str]] = field(default_factory=dict)
    kept: KeptFrames = field(default_factory=KeptFrames)

    @property
    def lateness(self) -> Lateness:
        """A day where commit times order the changes; else the order of the files is all there is."""
        has_times = self.options.timestamp_column is not None and self.sequences is not Sequences.ARRIVAL
        return Within(_DAY) if has_times else ORDERED

    @property
    def sequences(self) -> Sequences:
        """Commit times, or what the rule `add-column` tells; files of transactions are in the order of commits."""
        if self.options.sequence_column is None:
            is_told = self.options.cdc_path is not None and self.options.timestamp_column is not None
            return Sequences.ARRIVAL if is_told else Sequences.TIMES
        return _KINDS[self.options.sequence_kind]

    def take(self, dimension: Dimension, past: Past) -> Taken:
        """Choose the next files, in the order of their names."""
        self._refuse_images(dimension)
        if self.shared is not None:
            self._refuse_lateness(dimension)
            self._refuse_another_name(dimension)
        limits = Limits(self.options.max_files, self.options.max_bytes)
        return choose(self.folder, dimension, past, limits, self._as_named)

    def _as_named(self, table: TableName, listed: Sequence[SourceObject], past: Past) -> Sequence[SourceObject]:
        of_all = [] if self.shared is None else [i for i in listed if self._name(table, i.name).is_shared]
        own = [item for item in listed if item not in of_all] if of_all else listed
        for item in own if self.options.format != "auto" else ():
            self._refuse_other_format(table, item.name)
        if self.shared is None:
            return own
        has_more = any(item.name not in past.seen for item in own)
        return [*own, *self.shared.of_table(table, of_all, past, has_more=has_more)]

    def _refuse_images(self, dimension: Dimension) -> None:
        """Refuse to find rows by images that no task sends."""
        if dimension.match is Match.IMAGE and self.options.before_image_prefix is None:
            raise ConfigError(
                f'{dimension.name}: `match = "image"` needs the row as it was before a change',
                found="`before_image_prefix` is not set under [source]",
                todo="Let the task have the rule `add-before-image-columns` with `column-filter` `all`, and say "
                "its prefix (docs/dms-endpoint.md).",
            )

    def _refuse_lateness(self, dimension: Dimension) -> None:
        """Refuse to wait for late files where the order of the files is that of the transactions."""
        if self.options.sequence_column is None and not isinstance(dimension.lateness, Ordered):
            raise ConfigError(
                f"{dimension.name}: changes in files of transactions are never late",
                found="`cdc_path` is set, and the table has a `lateness`",
                todo='Leave `lateness` out, or set it to "ordered": the order is that of files and rows.',
            )

    def _refuse_another_name(self, dimension: Dimension) -> None:
        """Refuse another name than the source's: who has applied which files of transactions is kept by that."""
        if dimension.reads is not None:
            raise ConfigError(
                f"{dimension.name}: it reads {dimension.reads}, whose changes lie in files of many tables",
                found="`cdc_path` is set",
                todo=f"Of each table one alone can be made there, under its own name: {dimension.reads}.",
            )

    def truncation(self, dimension: Dimension, place: Position, time: int | None) -> DataFrame:
        """Return a truncate: DMS deletes the files of a table instead of writing one."""
        return truncation(self.spark(), dimension, place, time, in_part=bool(self._reading(dimension).in_part))

    def archive(self, dimension: Dimension, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Move applied files into the archive, where there is one; those of many tables once all applied them."""
        table = dimension.source
        of_all = [] if self.shared is None else [i for i in objects if self._name(table, i.name).is_shared]
        own = self.folder.put_away(table, [item for item in objects if item not in of_all])
        return [*own, *self.shared.archive(table, of_all)] if self.shared is not None and of_all else own

    def _refuse_other_format(self, table: TableName, name: str) -> None:
        if format_of(name) != self.options.format:
            raise SourceError(
                f"{table}: {name} is not a file of the format {self.options.format}",
                todo='Set `format = "auto"` under [source], or move the file away. Nothing was applied.',
            )

    def read(self, dimension: Dimension, taken: Taken, epoch: int) -> Batch[DataFrame]:
        """Read the files; those that changed meanwhile, and all after them, are left for the next batch."""
        self._refuse_sequence_as_column(dimension)
        self.headers.pop(dimension.source, None)
        every = [self._look_at(dimension, item) for item in taken.objects]
        files = self._alike(dimension, every)
        if taken.load is not None and len(files) < len(every):
            raise self._not_alike(dimension, files[-1], every[len(files)])
        objects = tuple(file.object for file in files)
        tags = {file.object.name: self._etag(dimension.source, file) for file in files}
        dimension = self._with_schema(dimension, files)
        rows = lift_places(self._frame(dimension, files), taken.restarts)
        frame, close = self.kept.keep(rows, dimension, objects)
        try:
            limit = believed(self.now())
            found = self._survey(with_ahead(frame, limit), dimension, files)
            if dimension.source not in self.tables_with_torn_rows and any(TORN in group.flags for group in found):
                self.tables_with_torn_rows.add(dimension.source)
                close()
                return self.read(dimension, taken, epoch)
            unchanged = still_alike(self.folder, dimension.source, taken)
            if len(unchanged.objects) < len(objects):
                close()
                return self._read_or_nothing(dimension, unchanged, epoch)
            self._refuse_damage(dimension, frame, files, found)
            batch = to_batch(
                frame,
                dimension,
                found,
                epoch=epoch,
                objects=[replace(item, etag=tags[item.name]) for item in objects],
                loads={file.object.name for file in files if file.name.is_load},
                back=steps_back(frame, found, dimension),
                steps={} if dimension.sequences.are_wide else None,
                may_need=self._reading(dimension).in_part,
                close=close,
            )
        except BaseException:
            close()
            raise
        batch = replace(batch, facts=replace(batch.facts, believed=limit))
        if taken.load is not None:
            batch = replace(batch, facts=replace(batch.facts, loaded=epoch))
        return batch

    def _etag(self, table: TableName, file: _File) -> str | None:
        known = self.shared.etag(file.object.name) if self.shared is not None and file.name.is_shared else None
        return file.object.etag or known or self.folder.etag(table, file.object.name)

    def _read_or_nothing(self, dimension: Dimension, taken: Taken, epoch: int) -> Batch[DataFrame]:
        if taken.objects:
            return self.read(dimension, taken, epoch)
        return Batch(self.spark().range(0).toDF("nothing"), facts([], dimension, dimension.schema, [], epoch))

    # Rows in quarantine.

    def written(self, dimension: Dimension) -> Dimension:
        """Return the dimension: the columns of a table are those of its files."""
        return dimension

    def remaking(self, dimension: Dimension, may_need: frozenset[Capability]) -> Remaking:
        """Return nothing: rules stand behind a source."""
        return Remaking()

    def cells(self, dimension: Dimension, entry: Entry) -> Cells:
        """Return a row as it was written, column by column; none where the file is gone."""
        if is_parquet(entry):
            return json_cells(entry.text, self._reading(dimension))
        expected = self._expected(dimension)
        try:
            name = self._name(dimension.source, entry.object)
            if name.is_shared:
                width = fields_in(entry.text, expected.dialect)
                return csv_cells(entry.text, find_shared_layout(entry.object, width, expected), expected.dialect)
            head = self._head(dimension.source, entry.object)
            layout = find_layout(entry.object, head, expected, is_load=name.is_load)
        except (SourceError, SchemaConflict):
            return Cells()
        return csv_cells(entry.text, layout, expected.dialect)

    def mend(self, dimension: Dimension, entries: Sequence[Entry]) -> DataFrame:
        """Return mended rows as events; one that is not mended is read as it was written."""
        return mended_rows(self.spark(), self._reading(dimension), entries, partial(self.cells, dimension))

    # What the beginning of a file says.

    def _look_at(self, dimension: Dimension, item: SourceObject) -> _File:
        name = self._name(dimension.source, item.name)
        if name.format == "parquet":
            with self.folder.open(dimension.source, item.name) as file:
                found = footer(file, str(dimension.name), item.name, OF_DMS)
                found = found.with_known(dimension.schema, renames=dimension.policies.renames)
                refuse_unknown(found, str(dimension.name), item.name)
                return _File(item, name, schema=found.schema, forms=found.forms)
        if not len(dimension.schema):
            raise SchemaConflict(
                f"{dimension.name}: the types of its columns are not declared",
                found=f"{item.name} is CSV, which has no types, and lakeward never guesses them",
                todo=f'Declare them under [tables."{dimension.name}".columns]. Other tables go on.',
            )
        self._check_formats(dimension)
        if self.shared is not None and name.is_shared:
            width = self.shared.share(dimension.source, item.name).width
            return _File(item, name, layout=find_shared_layout(item.name, width, self._expected(dimension)))
        head = self._head(dimension.source, item.name)
        layout = find_layout(item.name, head, self._expected(dimension), is_load=name.is_load)
        return _File(item, name, layout=layout)

    def _head(self, table: TableName, name: str) -> str:
        return self.folder.head(table, name, self.options.row_delimiter, self.options.quote)

    def _name(self, table: TableName, name: str) -> FileName:
        return self.folder.places.of(table).known(table, name)

    def _expected(self, dimension: Dimension) -> Expected:
        o = self.options
        dialect = self._reading(dimension).dialect
        added = (o.op_column, o.timestamp_column, o.before_image_prefix, o.sequence_column)
        expected = Expected(dimension, dialect, *added, may_lack_op=o.may_lack_op, header=o.header)
        return replace(expected, earlier=partial(self._earlier, expected))

    def _earlier(self, expected: Expected) -> Collection[str]:
        """Return the names in the headers of a table's files, which are looked at once for each batch."""
        table = expected.dimension.source
        found = self.headers.get(table)
        if found is None:
            found = names_in_headers(self.folder, table, expected, partial(self._head, table))
            self.headers[table] = found
        return found

    def _refuse_sequence_as_column(self, dimension: Dimension) -> None:
        """Refuse to take one column of the files for two things: it would be NULL in the table."""
        name = self.options.sequence_column
        if name is not None and name in dimension.schema.names:
            raise SchemaConflict(
                f"{dimension.name}: the column {name} is declared, and `sequence_column` names it",
                found="a column that DMS adds to say the order is none of the table's",
                todo=f'Take it out of [tables."{dimension.name}".columns]: `_lakeward_sequence` has what it says.',
            )

    def _check_formats(self, dimension: Dimension) -> None:
        """Refuse formats that a column cannot have; once for each table."""
        if dimension.name in self.tables_with_checked_formats:
            return
        patterns, table = self.patterns.get(dimension.source, {}), str(dimension.name)
        for item in dimension.schema:
            pattern = patterns.get(item.name)
            check_text(item, pattern, table)
            if pattern is not None and item.type.name != "binary":
                check_pattern(self.spark(), item, pattern, table)
        self.tables_with_checked_formats.add(dimension.name)

    def _alike(self, dimension: Dimension, files: Sequence[_File]) -> Sequence[_File]:
        """Return the files up to the first that has other columns than the one before it."""
        columns = [self._columns(dimension, file) for file in files]
        alike = next((place for place, own in enumerate(columns) if own != columns[0]), len(files))
        return files[:alike]

    def _not_alike(self, dimension: Dimension, one: _File, other: _File) -> SchemaConflict:
        return SchemaConflict(
            f"{dimension.name}: the files of its full load have different columns",
            found=f"found {one.object.name} and {other.object.name}",
            todo="Nothing was applied: a full load takes the place of all rows at once, so its files must have the "
            "same columns. Start the load again.",
        )

    def _columns(self, dimension: Dimension, file: _File) -> Mapping[str, Type]:
        """Return the table's columns that a file has, with their types."""
        if file.layout is None:
            return {c.name: c.type for c in self._own_columns(dimension, file)}
        declared = {c.name: c.type for c in dimension.schema if c.name in file.layout.columns}
        return {**declared, **dict.fromkeys(file.layout.undeclared(dimension.schema), UNDECLARED)}

    def _with_schema(self, dimension: Dimension, files: Sequence[_File]) -> Dimension:
        """Return the dimension with the columns that the files have; what a footer says must be as declared."""
        columns = dict(self._columns(dimension, files[0]))
        has_types = files[0].layout is None
        for declared in dimension.schema:
            if has_types and declared.name in dimension.announced:
                continue  # a footer says what DMS made of the type that the catalogue has
            found = Column(declared.name, columns.get(declared.name, declared.type))
            if is_within(found.type, declared.type):
                columns |= {declared.name: declared.type} if declared.name in columns else {}
                continue
            changes = compare(Schema((declared,)), Schema((found,)))
            if not all(dimension.policies.of(c.kind, c.names) is Policy.QUARANTINE for c in changes):
                raise SchemaConflict(
                    f"{dimension.name}: the columns of {files[0].object.name} are not those of the table",
                    found=f"column {declared.name} is {columns[declared.name]}, and declared as {declared.type}",
                    todo="Nothing of this batch was applied; other tables go on. Declare the columns under "
                    f"[tables] as they are now, or keep the file back. {WIDER}",
                )
        dimension = replace(dimension, schema=Schema(tuple(Column(name, type_) for name, type_ in columns.items())))
        self._check_columns(dimension, files[0])
        return dimension

    def _check_columns(self, dimension: Dimension, file: _File) -> None:
        """Refuse what the settings would have refused, had the columns been declared there."""
        found = ", ".join(dimension.schema.names)
        for name in dimension.key:
            if name not in dimension.schema.names:
                raise SchemaConflict(
                    f"{dimension.name}: the key names {name!r}, and {file.object.name} has no such column",
                    found=f"its columns are {found}",
                    todo=nearest(name, dimension.schema.names) or "Correct `key` under [tables].",
                )
        for name in dimension.schema.names:
            if name.lower().startswith(names.PREFIX) or not name.isprintable():
                raise SchemaConflict(
                    f"{dimension.name}: {file.object.name} has the column {name!r}, and no table may have it",
                    todo="Let DMS rename it (a transformation rule `rename-column`). Nothing was applied.",
                )

    def _own_columns(self, dimension: Dimension, file: _File) -> Schema:
        found = file.schema or Schema(())
        added = {self.options.op_column, self.options.timestamp_column, self.options.sequence_column}
        lacking = [c for c in added if c and c not in found.names]
        if file.name.is_load or self.options.may_lack_op:
            lacking = [c for c in lacking if c != self.options.op_column]
        if lacking:
            raise SchemaConflict(
                f"{dimension.name}: {file.object.name} lacks the column {lacking[0]}",
                found="its columns are " + ", ".join(found.names),
                todo="Correct `op_column`, `timestamp_column` or `sequence_column` under [source]. "
                "Nothing was applied.",
            )
        prefix = self.options.before_image_prefix
        before = [] if prefix is None else [prefix + c.name for c in found]
        own = Schema(tuple(c for c in found if c.name not in added and c.name not in before))
        return _called_now(dimension, file, own)

    def _reading(self, dimension: Dimension) -> Reading:
        o = self.options
        return Reading(
            dimension=dimension,
            dialect=o.dialect,
            op_column=o.op_column,
            operations=OPERATIONS,
            timestamp_column=o.timestamp_column,
            source_zone=o.source_zone,
            patterns=self.patterns.get(dimension.source, {}),
            before_prefix=o.before_image_prefix,
            sequence_column=o.sequence_column,
            base=self.folder.base,
            is_padded=o.trim_padding,
            without_op="insert" if o.operations == "inserts" else "read",
            indicator=o.operation_indicator,
            indicator_values=o.operation_indicator_values,
        )

    # The data.

    def _frame(self, dimension: Dimension, files: Sequence[_File]) -> DataFrame:
        """Read files of one layout together, whatever their number."""
        spark, reading = self.spark(), self._reading(dimension)
        is_csv = any(file.layout is not None and not file.name.is_shared for file in files)
        for name, value in WHOLE_FILES.items():
            spark.conf.set(name, value) if is_csv else spark.conf.unset(name)
        paths = {file.object.name: self._path(dimension.source, file) for file in files}
        numbered = [
            Numbered(paths[f.object.name], f.object.order, rank, f.name.is_load, f.has_op(self.options.op_column))
            for rank, f in enumerate(files)
        ]
        groups: dict[object, list[_File]] = defaultdict(list)
        for file in files:
            groups[file.layout or (_footer(file), _old_names(dimension, file))].append(file)
        frames = []
        for group in groups.values():
            own = [paths[file.object.name] for file in group]
            first = group[0]
            if self.shared is not None and first.layout is not None and first.name.is_shared:
                rows = self.shared.rows(dimension.source, [file.object for file in group])
                frames.append(typed_rows(rows, first.layout, reading))
            elif first.layout is not None:
                torn = dimension.source in self.tables_with_torn_rows
                frames.append(read_csv(spark, own, first.layout, reading, has_torn_rows=torn))
            else:
                has_op = first.has_op(self.options.op_column)
                called = {new: old for old, new in _old_names(dimension, first)}
                frames.append(read_parquet(spark, own, reading, _footer(first), has_op=has_op, called=called))
        rows = reduce(DataFrame.unionByName, frames)
        return to_events(rows, file_frame(spark, numbered, reading), reading)

    def _path(self, table: TableName, file: _File) -> str:
        """Return where a file lies below the landing folder; staged rows know theirs by its name."""
        name = file.object.name
        return f"{self.folder.base}/{name}" if file.name.is_shared else self.folder.landed(table, name)

    def _survey(self, frame: DataFrame, dimension: Dimension, files: Sequence[_File]) -> Sequence[Group]:
        try:
            return survey(frame, dimension, TORN, MALFORMED, AHEAD)
        except FAILURES as error:
            if (gone := unreachable(str(dimension.name), error)) is not None:
                raise gone from error
            text = full_text(error)
            listed = [file.object.name for file in files]
            whole = [name for name in listed if self.folder.path(dimension.source, name) in text]
            named = whole or [name for name in listed if PurePosixPath(name).name in text]
            raise not_read(str(dimension.name), named[0] if named else None, error) from error

    def _refuse_damage(
        self, dimension: Dimension, frame: DataFrame, files: Sequence[_File], found: Sequence[Group]
    ) -> None:
        """Stop at a quote that is never closed, and at a file of which no row has the right columns."""
        by_order = by_object(found)
        for file in files:
            groups = by_order.get(file.object.order, [])
            if any(TORN in group.flags for group in groups):
                of_file = (column(names.OBJECT) == file.object.order) & column(TORN)
                line = frame.where(of_file).agg(F.min(column(names.ROW))).collect()[0][0]
                raise SourceError(
                    f"{dimension.name}: {file.object.name} ends within a quoted field",
                    found=f"the quote is open in the row that begins on line {line}",
                    todo="Nothing of this batch was applied; other tables go on. Replace the file by a whole "
                    'one, or set `quote = ""` under [source] where the endpoint has Rfc4180=false.',
                )
            rows = [group for group in groups if group.reason != SKIPPED]
            if rows and file.layout is not None and all(MALFORMED in group.flags for group in rows):
                raise self._other_width(dimension, file, frame)
            if file.layout is not None and file.name.is_shared and self.options.timestamp_column is not None:
                own = frame.where(column(names.OBJECT) == file.object.order)
                refuse_shifted(dimension, file.object.name, file.layout, own)

    def _other_width(self, dimension: Dimension, file: _File, frame: DataFrame) -> SchemaConflict:
        of_file = column(names.OBJECT) == file.object.order
        why = frame.where(of_file).orderBy(column(names.ROW)).select(column(names.DETAIL)).first()
        return SchemaConflict(
            f"{dimension.name}: no row of {file.object.name} has the columns of the table",
            found=f"in the first of them, {why[0] if why else 'nothing'}",
            todo="Nothing of this batch was applied; other tables go on. Declare the columns as they are now "
            "under [tables], or keep the file back.",
        )


def _footer(file: _File) -> Footer:
    return Footer(file.schema or Schema(()), file.forms)


def _old_names(dimension: Dimension, file: _File) -> tuple[tuple[str, str], ...]:
    """Return the columns that a Parquet file has by an old name, with the new one."""
    has = () if file.schema is None else file.schema.names
    return tuple((old, new) for old, new in dimension.policies.renames.items() if old in has)


def _called_now(dimension: Dimension, file: _File, own: Schema) -> Schema:
    """Return the columns of a file by the names that they have now; one is there once."""
    names_now = [dimension.policies.renames.get(name, name) for name in own.names]
    for new in set(dimension.policies.renames.values()):
        both = [name for name, now in zip(own.names, names_now, strict=True) if now == new]
        if len(both) > 1:
            raise has_both(dimension, file.object.name, both)
    return Schema(tuple(Column(now, c.type) for now, c in zip(names_now, own, strict=True)))
