"""Inspection of the source without reading rows: tables for patterns, unconfigured tables, and cautions."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError, LakewardError, StoreUnreachable
from lakeward.core.operations.maintain import layout_changes
from lakeward.core.ports import SourceInventory, UnroutedRow, UnroutedRows
from lakeward.core.text.numbers import format_count
from lakeward.entrypoints.settings.configuration import Configuration
from lakeward.entrypoints.settings.patterns import name_of_entry, plain
from lakeward.entrypoints.settings.refused_tables import describe_left_out

_FILE: Final = "tables.json"
_NEXT: Final = "Next: `lakeward maintain --dry-run`"


@dataclass(frozen=True, slots=True)
class Findings:
    """Findings about the source: unconfigured tables, cautions by table, and warnings about the pipeline.

    `unrouted_rows` is the number of rows that name no table. `unreachable` is the error of a source that did not
    answer.
    """

    unconfigured: Sequence[TableName] = ()
    cautions: Mapping[TableName, Sequence[str]] = field(default_factory=dict)
    warnings: Sequence[str] = ()
    unrouted_rows: int = 0
    unreachable: StoreUnreachable | None = None

    def with_cautions(self, more: Mapping[TableName, Sequence[str]]) -> Findings:
        """Return the findings with more cautions for the same tables."""
        cautions = {table: (*own, *more.get(table, ())) for table, own in self.cautions.items()}
        return replace(self, cautions=cautions)


def inspect_source(container: Any, tables: Iterable[TableName]) -> Findings:
    """Inspect the source without Spark. A source that cannot be listed is reported when it is read.

    Raises ConfigError if the settings of the source are wrong.
    """
    configured: Configuration = container.configured()
    configured_tables = known_tables(configured)
    catalogue_cautions = {table: configured.cautions(table) for table in tables}
    settings_warnings = (*configured.catalogue_answers.warnings, *describe_left_out(configured.left_out))
    landing = container.landing()
    try:
        source_tables = () if landing is None else landing.tables()
    except LakewardError as error:
        unreachable = error if isinstance(error, StoreUnreachable) else None
        return Findings(cautions=catalogue_cautions, warnings=settings_warnings, unreachable=unreachable)
    unrouted_rows = _unrouted_rows(container.unrouted_rows())
    warnings = (*settings_warnings, *_warnings(landing, configured_tables), *_unrouted_warnings(unrouted_rows))
    unconfigured = _unconfigured(source_tables, configured_tables)
    cautions = {
        table: (*_cautions(landing, configured.source_names.get(table, table)), *own)
        for table, own in catalogue_cautions.items()
    }
    return Findings(unconfigured, cautions, warnings, len(unrouted_rows))


def layouts(container: Any, tables: Iterable[TableName]) -> Mapping[TableName, Sequence[str]]:
    """Return how the layout of each table differs from its settings; tables that cannot be read are left out."""
    differences = {}
    for table in tables:
        with suppress(LakewardError):
            changes = layout_changes(container.job(table=table))
            differences[table] = [f"{change}. {change.refused or _NEXT}" for change in changes]
    return differences


def _unconfigured(
    source_tables: Sequence[TableName], configured_tables: Collection[TableName]
) -> Sequence[TableName]:
    """Return the tables that are not read; of names that differ only in case, only the exact one is configured."""
    names, spellings = {plain(name) for name in configured_tables}, Counter(map(plain, source_tables))
    return [
        table
        for table in source_tables
        if plain(table) not in names or (spellings[plain(table)] > 1 and table not in configured_tables)
    ]


def _unrouted_rows(store: UnroutedRows | None) -> Sequence[UnroutedRow]:
    try:
        return () if store is None else store.unrouted_rows()
    except LakewardError:
        return ()


def _unrouted_warnings(unrouted_rows: Sequence[UnroutedRow]) -> Sequence[str]:
    if not unrouted_rows:
        return ()
    first = f"{unrouted_rows[0].object}, row {unrouted_rows[0].row}"
    return (
        f"{format_count(len(unrouted_rows), 'row names', 'rows name')} no table, so any table may lack "
        f"{'it' if len(unrouted_rows) == 1 else 'them'} (the first is {first}). "
        "Next: `lakeward quarantine unrouted`",
    )


def known_tables(configured: Configuration) -> Collection[TableName]:
    """Return the tables of the source that the settings name, including those left out."""
    return {*configured.source_names.values(), *configured.skipped}


def _warnings(landing: SourceInventory | None, tables: Collection[TableName]) -> Sequence[str]:
    try:
        return () if landing is None else tuple(landing.warnings(tables))
    except LakewardError:
        return ()


def _cautions(landing: SourceInventory | None, table: TableName) -> Sequence[str]:
    try:
        return () if landing is None else tuple(landing.cautions(table))
    except LakewardError:
        return ()


def find_tables(configured: Configuration) -> Configuration:
    """Return the settings with the tables that match its patterns, now or in the last run.

    A table whose folder has disappeared remains, so that the loss is reported.
    """
    if not configured.patterns:
        return configured
    from lakeward.entrypoints.container import Container  # noqa: PLC0415  # only with patterns

    landing = Container(configured=configured).landing()
    current = [] if landing is None else [*landing.tables()]
    missing = [table for table in _stored_tables(configured.state) if plain(table) not in map(plain, current)]
    return configured.with_source_tables([*current, *missing])


def _stored_tables(state: Path) -> Sequence[TableName]:
    """Return the tables that matched patterns in the last run."""
    file = state / _FILE
    try:
        return [TableName(str(schema), str(table)) for schema, table in json.loads(file.read_text("utf-8"))]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, TypeError) as error:
        raise ConfigError(
            f"{file} cannot be read",
            found=str(error),
            todo="It lists the tables that matched patterns. Check that none of their folders is missing, and "
            "delete the file.",
        ) from error


def store_tables(configured: Configuration) -> None:
    """Store the tables that match patterns now; the caller holds the lock of the pipeline."""
    if configured.patterns:
        named = {
            name_of_entry(name) for name in configured.content.get("tables", {}) if name not in configured.patterns
        }
        named |= configured.refused.keys()
        matched = [
            list(table)
            for table, source_name in configured.source_names.items()
            if table == source_name and table not in named
        ]
        file, unfinished = configured.state / _FILE, configured.state / f".{_FILE}"
        unfinished.write_text(json.dumps(matched), "utf-8")
        unfinished.replace(file)
