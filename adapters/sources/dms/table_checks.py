"""Refusals of table settings that DMS files cannot meet."""

from __future__ import annotations

from lakeward.adapters.sources.dms.options import DmsOptions
from lakeward.adapters.sources.landing.places import format_of
from lakeward.core.dimension import Dimension, Match, Ordered, TableName
from lakeward.core.errors import ConfigError, SchemaConflict, SourceError


def refuse_image_match(dimension: Dimension, options: DmsOptions) -> None:
    """Raise ConfigError for `match = "image"` where no task sends before images."""
    if dimension.match is Match.IMAGE and options.before_image_prefix is None:
        raise ConfigError(
            f'{dimension.name}: `match = "image"` needs the row as it was before a change',
            found="`before_image_prefix` is not set under [source]",
            todo="Let the task have the rule `add-before-image-columns` with `column-filter` `all`, and say "
            "its prefix (docs/reference/dms-endpoint.md).",
        )


def refuse_lateness(dimension: Dimension, options: DmsOptions) -> None:
    """Raise ConfigError for a `lateness` where files have the order of transactions: nothing is late there."""
    if options.sequence_column is None and not isinstance(dimension.lateness, Ordered):
        raise ConfigError(
            f"{dimension.name}: changes in files of transactions are never late",
            found="`cdc_path` is set, and the table has a `lateness`",
            todo='Leave `lateness` out, or set it to "ordered": the order is that of files and rows.',
        )


def refuse_another_name(dimension: Dimension) -> None:
    """Raise ConfigError for `reads` with transaction files, whose index knows a table by its source name only."""
    if dimension.source_name is not None:
        raise ConfigError(
            f"{dimension.name}: it reads {dimension.source_name}, whose changes lie in files of many tables",
            found="`cdc_path` is set",
            todo=f"Of each table one alone can be made there, under its own name: {dimension.source_name}.",
        )


def refuse_sequence_as_column(dimension: Dimension, options: DmsOptions) -> None:
    """Raise SchemaConflict for a declared column that `sequence_column` names: it would be NULL in the table."""
    name = options.sequence_column
    if name is not None and name in dimension.schema.names:
        raise SchemaConflict(
            f"{dimension.name}: the column {name} is declared, and `sequence_column` names it",
            found="a column that DMS adds to say the order is none of the table's",
            todo=f'Take it out of [tables."{dimension.name}".columns]: `_lakeward_sequence` has what it says.',
        )


def refuse_other_format(table: TableName, name: str, options: DmsOptions) -> None:
    """Raise SourceError for a file of another format than `format` names."""
    if format_of(name) != options.format:
        raise SourceError(
            f"{table}: {name} is not a file of the format {options.format}",
            todo='Set `format = "auto"` under [source], or move the file away. Nothing was applied.',
        )
