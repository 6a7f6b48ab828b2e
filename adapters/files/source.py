"""The source `files`: CSV, JSON lines, Parquet and messages, that something else than DMS wrote."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce
from pathlib import PurePosixPath
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakeward.adapters.files.columns import check_mapping, with_mapping, writings
from lakeward.adapters.files.lines import STRANGE, as_messages, json_rows, read_lines, strange
from lakeward.adapters.files.names import with_ordinals
from lakeward.adapters.files.options import FilesOptions
from lakeward.adapters.landed.csv import Dialect
from lakeward.adapters.landed.csv_frames import WHOLE_FILES, read_csv
from lakeward.adapters.landed.folder import Folder
from lakeward.adapters.landed.layout import OP, Expected, Layout, find_layout
from lakeward.adapters.landed.mending import csv_cells, is_parquet, json_cells, mended_rows
from lakeward.adapters.landed.parquet import footer, read_parquet
from lakeward.adapters.landed.places import format_of
from lakeward.adapters.landed.reading import Numbered, Reading, file_frame
from lakeward.adapters.landed.taking import choose, still_alike, to_batch
from lakeward.adapters.messages.debezium import Debezium
from lakeward.adapters.messages.decoded import to_rows
from lakeward.adapters.messages.dms import DmsMessages
from lakeward.adapters.messages.wire import EPOCHS
from lakeward.adapters.spark import names
from lakeward.adapters.spark.casts import check_pattern, check_text
from lakeward.adapters.spark.errors import FAILURES, full_text, said, unreachable
from lakeward.adapters.spark.events import AHEAD, SKIPPED, Group, by_object, facts, steps_back, survey, with_ahead
from lakeward.adapters.spark.names import column
from lakeward.adapters.spark.rows import MALFORMED, TORN, TRANSACTION_TEXT, to_events
from lakeward.adapters.spark.truncates import truncation
from lakeward.core.clock import believed
from lakeward.core.dimension import ORDERED, Dimension, Lateness, TableName, Within
from lakeward.core.errors import SchemaConflict, SourceError
from lakeward.core.events import Position, Sequences
from lakeward.core.evolution import Kind, Policy
from lakeward.core.facts import PARTIAL, Capability
from lakeward.core.ledger import Limits, Past, SourceObject, Taken
from lakeward.core.nearest import nearest
from lakeward.core.ports import Batch, Cells, Entry
from lakeward.core.remaking import Remaking
from lakeward.core.schema import Column, Schema, Type
from lakeward.plugins.registry import clock

_DAY: Final = 24 * 3600 * 1_000_000
_NO_COLUMN: Final = "\0none"
_ODD: Final = "_lakeward_odd"


@dataclass(frozen=True, slots=True)
class _File:
    """A file of a batch, its format, and what its beginning says."""

    item: SourceObject
    format: str
    layout: Layout | None = None
    schema: Schema | None = None

    @property
    def kind(self) -> Layout | Schema | str:
        """What files have in common that are read together."""
        return self.layout or self.schema or self.format


@dataclass(slots=True)
class FilesSource:
    """Plain files. A batch is read whole, once, before anything is written."""

    options: FilesOptions
    folder: Folder
    spark: Callable[[], SparkSession]
    patterns: Mapping[TableName, Mapping[str, str]] = field(default_factory=dict)
    of_tables: Mapping[TableName, FilesOptions] = field(default_factory=dict)
    now: Callable[[], int] = clock
    tables_with_torn_rows: set[TableName] = field(default_factory=set)

    @property
    def lateness(self) -> Lateness:
        """A day where rows have a time; else the order of files and lines is all there is."""
        return Within(_DAY) if self.options.time or self.options.order_by else ORDERED

    @property
    def sequences(self) -> Sequences:
        """Places in the order that a column or a message tells."""
        return Sequences.PLACES

    def take(self, dimension: Dimension, past: Past) -> Taken:
        """Choose the next files."""
        limits = Limits(self.options.max_files, self.options.max_bytes)
        return choose(self.folder, dimension.name, past, limits, with_ordinals)

    def archive(self, dimension: Dimension, objects: Sequence[SourceObject]) -> Sequence[str]:
        """Move applied files into the archive, where there is one."""
        return self.folder.put_away(dimension.name, objects)

    def truncation(self, dimension: Dimension, place: Position) -> DataFrame:
        """Return a truncate that no file tells."""
        return truncation(self.spark(), dimension, place, in_part=bool(self._reading(dimension).in_part))

    def remaking(self, dimension: Dimension, may_need: frozenset[Capability]) -> Remaking:
        """Return nothing: rules stand behind a source."""
        return Remaking()

    def read(self, dimension: Dimension, taken: Taken, epoch: int) -> Batch[DataFrame]:
        """Read the files; those that changed meanwhile, and all after them, are left for the next batch."""
        files = _alike([self._look_at(dimension, item) for item in taken.objects])
        objects = [file.item for file in files]
        tags = {item.name: item.etag or self.folder.etag(dimension.name, item.name) for item in objects}
        dimension = self._with_schema(dimension, files)
        check_mapping(self._options(dimension), dimension)
        frame = self._frame(dimension, files)
        frame.persist()
        try:
            limit = believed(self.now())
            found = self._survey(with_ahead(frame, limit), dimension, files)
            is_torn = any(TORN in group.flags for group in found)
            unchanged = still_alike(self.folder, dimension.name, taken)
            if len(unchanged.objects) < len(objects) or (is_torn and self._may_be_torn(dimension)):
                frame.unpersist()
                return self._read_or_nothing(dimension, taken if is_torn else unchanged, epoch)
            self._refuse_damage(dimension, frame, files, found)
            batch = to_batch(
                frame.drop(STRANGE, _ODD),
                dimension,
                found,
                epoch=epoch,
                objects=[replace(item, etag=tags[item.name]) for item in objects],
                # Rows of plain files need not be sorted by the column that orders them.
                back=steps_back(frame, found, dimension) if self.options.is_messages else {},
                may_need=self._reading(dimension).in_part,
            )
        except BaseException:
            frame.unpersist()
            raise
        return replace(batch, facts=replace(batch.facts, believed=limit), close=partial(_free, frame))

    def _may_be_torn(self, dimension: Dimension) -> bool:
        """Whether rows over several lines were not looked for yet; from now on they are."""
        was_known = dimension.name in self.tables_with_torn_rows
        self.tables_with_torn_rows.add(dimension.name)
        return not was_known

    def _read_or_nothing(self, dimension: Dimension, taken: Taken, epoch: int) -> Batch[DataFrame]:
        if taken.objects:
            return self.read(dimension, taken, epoch)
        return Batch(self.spark().range(0).toDF("nothing"), facts([], dimension, dimension.schema, [], epoch))

    # Rows in quarantine.

    def written(self, dimension: Dimension) -> Dimension:
        """Return the dimension: the columns of a table are those of its files."""
        return dimension

    def cells(self, dimension: Dimension, entry: Entry) -> Cells:
        """Return a row as it was written, column by column; none where that cannot be told."""
        if is_parquet(entry):
            return json_cells(entry.text, self._reading(dimension))
        if self._format(dimension, entry.object) != "csv":
            return _cells_of_line(entry.text, dimension)
        try:
            head = self.folder.head(dimension.name, entry.object)
            layout = find_layout(entry.object, head, self._expected(dimension), is_load=False)
        except (SourceError, SchemaConflict):
            return Cells()
        return csv_cells(entry.text, layout, self._reading(dimension).dialect)

    def mend(self, dimension: Dimension, entries: Sequence[Entry]) -> DataFrame:
        """Return mended rows as events; one that is not mended is read as it was written."""
        return mended_rows(self.spark(), self._reading(dimension), entries, partial(self.cells, dimension))

    # What the beginning of a file says.

    def _options(self, dimension: Dimension) -> FilesOptions:
        return self.of_tables.get(dimension.name, self.options)

    def _format(self, dimension: Dimension, name: str) -> str:
        said = self._options(dimension).format
        return format_of(name) if said == "auto" else said

    def _look_at(self, dimension: Dimension, item: SourceObject) -> _File:
        form = self._format(dimension, item.name)
        if form == "parquet":
            with self.folder.open(dimension.name, item.name) as file:
                return _File(item, form, schema=footer(file, str(dimension.name), item.name))
        if not len(dimension.schema):
            raise SchemaConflict(
                f"{dimension.name}: the types of its columns are not declared",
                found=f"{item.name} has no types that a table could have, and lakeward never guesses them",
                todo=f'Declare them under [tables."{dimension.name}".columns]. Other tables go on.',
            )
        self._check_formats(dimension, form)
        if form != "csv":
            return _File(item, form)
        head = self.folder.head(dimension.name, item.name)
        return _File(item, form, find_layout(item.name, head, self._expected(dimension), is_load=False))

    def _check_formats(self, dimension: Dimension, form: str) -> None:
        """Refuse formats that a column cannot have."""
        for item in dimension.schema:
            pattern = self.patterns.get(dimension.name, {}).get(item.name)
            if form == "csv" or pattern is not None:
                is_epoch = pattern in EPOCHS and item.type.name in ("timestamp", "timestamp_ntz") and form != "csv"
                check_text(item, None if is_epoch else pattern, str(dimension.name))
                if pattern is not None and not is_epoch and item.type.name != "binary":
                    check_pattern(self.spark(), item, pattern, str(dimension.name))

    def _operation_column(self, dimension: Dimension) -> str | None:
        """Return the column with the operation, where the table has it not itself."""
        said = self._options(dimension).operation
        return None if said is None or dimension.schema.find(said.column) is not None else said.column

    def _expected(self, dimension: Dimension) -> Expected:
        operation = self._operation_column(dimension)
        dialect = self._reading(dimension).dialect
        return Expected(dimension, dialect, operation or _NO_COLUMN, None, may_lack_op=operation is None)

    def _with_schema(self, dimension: Dimension, files: Sequence[_File]) -> Dimension:
        """Return the dimension with the columns that its files have; a footer's are those of Parquet."""
        first = files[0]
        if first.layout is not None:
            strange_columns = first.layout.undeclared(dimension.schema)
            if strange_columns:
                raise _not_declared(dimension, first.item.name, strange_columns)
            has = first.layout.columns
            return replace(dimension, schema=Schema(tuple(c for c in dimension.schema if c.name in has)))
        if first.schema is None:
            return dimension
        declared, renames = dimension.schema, dimension.policies.renames
        own = [Column(renames.get(c.name, c.name), c.type) for c in first.schema]
        operation = self._options(dimension).operation
        if operation is not None and declared.find(operation.column) is None:
            own = [c for c in own if c.name != operation.column]
        for item in own:
            said_so = declared.find(item.name)
            if said_so is not None and said_so.type != item.type:
                raise SchemaConflict(
                    f"{dimension.name}: the columns of {first.item.name} are not those of the table",
                    found=f"column {item.name} is {item.type}, and declared as {said_so.type}",
                    todo="Nothing of the table was applied; other tables go on. Declare them as they are now.",
                )
        _check_names(dimension, first, own)
        return replace(dimension, schema=Schema(tuple(own)))

    def _reading(self, dimension: Dimension) -> Reading:
        o = self._options(dimension)
        operation = o.operation
        patterns = self.patterns.get(dimension.name, {})
        names_all = operation is not None and bool(operation.insert or operation.update)
        return Reading(
            dimension=dimension,
            dialect=Dialect(o.delimiter, o.quote, o.null_text),
            op_column=operation.column if operation else _NO_COLUMN,
            operations=_WORDS if o.is_messages else operation.meanings if operation else {},
            takes_other_words=operation is not None and not names_all,
            sequence_column="its source" if o.is_messages else o.order_by,
            source_zone=o.source_zone,
            patterns={name: pattern for name, pattern in patterns.items() if pattern not in EPOCHS},
            base=self.folder.base,
            is_any_number=True,
            may_need=self._may_need(o),
            transaction=TRANSACTION_TEXT if o.is_messages else f"string({names.TIME})",
            written=writings(o, dimension, patterns) if o.is_messages else {},
        )

    def _may_need(self, options: FilesOptions) -> frozenset[Capability]:
        if options.is_messages:
            return PARTIAL
        return frozenset({Capability.UNSET} if options.absent == "unset" else ())

    # The data.

    def _frame(self, dimension: Dimension, files: Sequence[_File]) -> DataFrame:
        """Read files that are alike together, whatever their number."""
        spark, reading, options = self.spark(), self._reading(dimension), self._options(dimension)
        is_text = any(file.schema is None for file in files)
        for name, value in WHOLE_FILES.items():
            spark.conf.set(name, value) if is_text else spark.conf.unset(name)
        paths = {file.item.name: self.folder.landed(dimension.name, file.item.name) for file in files}
        has_op = options.is_messages or options.operation is not None
        numbered = [
            Numbered(paths[file.item.name], file.item.order, rank, is_load=False, has_op=has_op)
            for rank, file in enumerate(files)
        ]
        groups: dict[Layout | Schema | str, list[_File]] = defaultdict(list)
        for file in files:
            groups[file.kind].append(file)
        rows = reduce(
            partial(DataFrame.unionByName, allowMissingColumns=True),
            [
                self._rows(dimension, group[0], [paths[file.item.name] for file in group])
                for group in groups.values()
            ],
        )
        if not options.is_messages:
            rows = with_mapping(rows, options, dimension)
        also = (STRANGE,) if STRANGE in rows.columns else ()
        events = to_events(rows, file_frame(spark, numbered, reading), reading, also)
        return events.selectExpr("*", f"{STRANGE} IS NOT NULL AS {_ODD}" if also else f"false AS {_ODD}")

    def _rows(self, dimension: Dimension, first: _File, paths: Sequence[str]) -> DataFrame:
        spark, reading, options = self.spark(), self._reading(dimension), self._options(dimension)
        if first.layout is not None:
            torn = dimension.name in self.tables_with_torn_rows
            return read_csv(spark, paths, first.layout, reading, has_torn_rows=torn)
        if first.schema is not None:
            has = first.schema.names
            called = {new: old for old, new in dimension.policies.renames.items() if old in has}
            has_op = options.operation is not None and options.operation.column in has
            return read_parquet(spark, paths, reading, has_op=has_op, called=called)
        lines = read_lines(spark, paths, reading)
        if first.format == "json":
            operation = self._operation_column(dimension)
            return json_rows(lines, reading, operation, keeps_absent=options.absent == "unset")
        decoder = _decoder(options)
        opened = decoder.opened(as_messages(lines, options.line), dimension.name)
        own = strange(decoder.row, dimension.schema.names, decoder.prefix)
        return to_rows(opened, reading, decoder.decoded(reading), reading.written, own)

    def _survey(self, frame: DataFrame, dimension: Dimension, files: Sequence[_File]) -> Sequence[Group]:
        try:
            return survey(frame, dimension, TORN, MALFORMED, AHEAD, _ODD)
        except FAILURES as error:
            if (gone := unreachable(str(dimension.name), error)) is not None:
                raise gone from error
            text = full_text(error)
            named = [file.item.name for file in files if PurePosixPath(file.item.name).name in text]
            raise SourceError(
                f"{dimension.name}: {named[0] if named else 'a file of the batch'} cannot be read",
                found=said(error),
                todo="Nothing of the table was applied; other tables go on. Replace the file by a whole one.",
            ) from error

    def _refuse_damage(
        self, dimension: Dimension, frame: DataFrame, files: Sequence[_File], found: Sequence[Group]
    ) -> None:
        """Stop at a file that breaks the rules as a whole, and at columns that nobody declared."""
        by_order = by_object(found)
        for file in files:
            groups = by_order.get(file.item.order, [])
            rows = [group for group in groups if group.reason != SKIPPED]
            of_file = frame.where(column(names.OBJECT) == file.item.order)
            if any(TORN in group.flags for group in groups):
                line = of_file.where(column(TORN)).agg(F.min(column(names.ROW))).collect()[0][0]
                raise SourceError(
                    f"{dimension.name}: {file.item.name} ends within a quoted field",
                    found=f"the quote is open in the row that begins on line {line}",
                    todo="Nothing of the table was applied; other tables go on. Replace the file by a whole one.",
                )
            if any(_ODD in group.flags for group in rows):
                self._refuse_strange(dimension, of_file, file)
            if rows and all(MALFORMED in group.flags for group in rows):
                why = (
                    of_file.where(column(MALFORMED)).orderBy(column(names.ROW)).select(column(names.DETAIL)).first()
                )
                raise SchemaConflict(
                    f"{dimension.name}: no row of {file.item.name} can be read",
                    found=f"of the first of them, {why[0] if why else 'nothing'}",
                    todo="Nothing of the table was applied; other tables go on. Correct `format` and what belongs "
                    "to it under [source], or keep the file back.",
                )

    def _refuse_strange(self, dimension: Dimension, of_file: DataFrame, file: _File) -> None:
        found = of_file.selectExpr(f"explode({STRANGE}) AS name").distinct().limit(100).collect()
        policies = dimension.policies
        listed = sorted(row[0] for row in found if policies.of(Kind.ADD, [row[0]]) is not Policy.IGNORE)
        if listed:
            raise _not_declared(dimension, file.item.name, listed)


_WORDS: Final = {word: word for word in ("insert", "update", "delete", "read", "truncate", "upsert")}


def _decoder(options: FilesOptions) -> Debezium | DmsMessages:
    if options.format == "dms-json":
        return DmsMessages(before_prefix=options.before_image_prefix)
    return Debezium(form=options.form, unavailable=options.unavailable_value, tombstones=options.tombstones)


def _alike(files: Sequence[_File]) -> Sequence[_File]:
    """Return the files up to the first that has other columns than the one before it."""
    columns = [_columns(file) for file in files]
    return files[: next((place for place, own in enumerate(columns) if own != columns[0]), len(files))]


def _columns(file: _File) -> frozenset[str] | dict[str, Type] | None:
    if file.layout is not None:
        return frozenset(file.layout.columns) - {OP}
    return None if file.schema is None else {c.name: c.type for c in file.schema}


def _not_declared(dimension: Dimension, name: str, listed: Sequence[str]) -> SchemaConflict:
    return SchemaConflict(
        f"{dimension.name}: {name} has columns that are not declared",
        found="they are " + ", ".join(listed),
        todo=f'Declare them under [tables."{dimension.name}".columns], or set `schema.add = "ignore"`. '
        "Nothing of the table was applied; other tables go on.",
    )


def _check_names(dimension: Dimension, file: _File, own: Sequence[Column]) -> None:
    """Refuse what the settings would have refused, had the columns been declared there."""
    listed = [c.name for c in own]
    for name in dimension.key:
        if name not in listed:
            raise SchemaConflict(
                f"{dimension.name}: the key names {name!r}, and {file.item.name} has no such column",
                found="its columns are " + ", ".join(listed),
                todo=nearest(name, listed) or "Correct `key` under [tables].",
            )
    for name in listed:
        if name.startswith(names.PREFIX) or not name.isprintable() or listed.count(name) > 1:
            raise SchemaConflict(
                f"{dimension.name}: {file.item.name} has the column {name!r}, and no table may have it so",
                todo="Let the writer of the file rename it. Nothing was applied.",
            )


def _cells_of_line(line: str, dimension: Dimension) -> Cells:
    """Return the cells of a line of JSON that the table has: an object, or the image of a row in a message."""
    found: Any = json.loads(line, parse_int=str, parse_float=str)
    for step in ("value", "payload", "after", "data"):
        if isinstance(found, dict) and isinstance(found.get(step), dict) and dimension.schema.find(step) is None:
            found = found[step]
    if not isinstance(found, dict):
        return Cells()
    texts = {
        name: value if value is None or isinstance(value, str) else json.dumps(value)
        for name, value in found.items()
    }
    return Cells({name: text for name, text in texts.items() if dimension.schema.find(name) is not None})


def _free(frame: DataFrame) -> None:
    frame.unpersist()
