"""Validated settings of a pipeline, and the dimensions, rules and policies of its tables."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

from lakeward.core.dimension import (
    ORDERED,
    Deletes,
    Dimension,
    Lateness,
    Older,
    TableName,
    Ties,
)
from lakeward.core.errors import ConfigError, LakewardError, SchemaConflict
from lakeward.core.events import Sequences
from lakeward.core.history.options import History
from lakeward.core.joined.declaration import JoinDeclaration
from lakeward.core.schema import Schema
from lakeward.core.settings.layers import MergedSettings
from lakeward.core.settings.source_catalogue import NO_ANSWERS, CatalogueAnswers
from lakeward.core.shaping.shape import shape
from lakeward.core.shaping.shaped_source import TableRules
from lakeward.core.text.durations import micros_of
from lakeward.core.text.suggestions import nearest
from lakeward.entrypoints.settings.error_origins import ErrorOrigins
from lakeward.entrypoints.settings.models.history import history_of
from lakeward.entrypoints.settings.models.joined_tables import JoinedSettings, check_joined, joined_of
from lakeward.entrypoints.settings.models.maintenance import MaintainSettings
from lakeward.entrypoints.settings.models.row_match import match_of
from lakeward.entrypoints.settings.models.sections import Settings
from lakeward.entrypoints.settings.models.table_policies import (
    lateness_of,
    policies_of,
    snapshots_of,
    tolerance_of,
)
from lakeward.entrypoints.settings.models.tables import TableSettings
from lakeward.entrypoints.settings.patterns import (
    is_pattern,
    name_of_entry,
    plain,
    table_name,
    takes,
    with_patterns,
)
from lakeward.entrypoints.settings.refused_tables import find_refused_tables
from lakeward.entrypoints.settings.sibling_tables import formats_of, source_names_of, split_modes
from lakeward.entrypoints.settings.stores import read_settings_of, with_stores
from lakeward.entrypoints.settings.table_definition import (
    CompletedTable,
    check_history,
    comments_of,
    rules_of,
    with_catalogue,
)
from lakeward.entrypoints.settings.table_names import (
    refuse_duplicate_names,
    refuse_name_of_joined,
    refuse_names_of_side_tables,
)
from lakeward.plugins.options import validated

FILE: Final = "lakeward.toml"


class Configuration:
    """Validated settings, with the file they are from."""

    def __init__(
        self,
        settings: Settings,
        file: Path,
        content: Mapping[str, Any] = MappingProxyType({}),
        catalogue_answers: CatalogueAnswers = NO_ANSWERS,
        merged: MergedSettings | None = None,
        refused: Mapping[TableName, LakewardError] = MappingProxyType({}),
    ) -> None:
        self.settings = settings
        self.file = file
        self.base = file.absolute().parent
        self.content = content
        self.catalogue_answers = catalogue_answers
        self.merged = MergedSettings(content=content, places={}) if merged is None else merged
        self.refused = refused
        self.patterns = [name for name in settings.tables if is_pattern(name)]
        named = {name: table for name, table in settings.tables.items() if name not in self.patterns}
        by_name = {table_name(name): table for name, table in named.items()}
        self.tables = {name: table for name, table in by_name.items() if not table.skip and name not in refused}
        self.skipped = by_name.keys() - self.tables.keys() - refused.keys()
        refuse_duplicate_names(file, [name for name in named if table_name(name) in self.tables])
        entries = {name: self._entry(name) for name in refused}
        self._unreadable = {name for name, own in entries.items() if own is None}
        refused_names = {name: _source_name_of_refused(name, own) for name, own in entries.items()}
        self.source_names = {**refused_names, **source_names_of(self.tables, self.skipped)}
        self.tables |= dict.fromkeys(refused, TableSettings())
        self._completed_tables = {name: self._complete(name, table) for name, table in self.tables.items()}
        self.tables = {name: completed.table for name, completed in self._completed_tables.items()}
        self.joined = self._joined_tables()
        refuse_names_of_side_tables([*(self.tables.keys() - refused.keys()), *self.joined])
        dimensions = {
            name: self.dimension(name)
            for name, completed in self._completed_tables.items()
            if completed.error is None
        }
        keyless = {name for name in dimensions if not self.tables[name].key and not self.asks(name)}
        self._joinings = {name: check_joined(joined, dimensions, keyless) for name, joined in self.joined.items()}

    def _entry(self, name: TableName) -> Mapping[str, Any] | None:
        """Return the settings of a table from all layers; None if its entry cannot be read."""
        tables = self.merged.content.get("tables", {})
        entries = (own for text, own in tables.items() if plain(name_of_entry(text)) == plain(name))
        own = next(entries, None)
        return own if isinstance(own, Mapping) else None

    def _joined_tables(self) -> Mapping[TableName, JoinDeclaration]:
        """Return the declarations of joined tables."""
        declarations: dict[TableName, JoinDeclaration] = {}
        names = [table_name(key) for key in self.settings.joined]
        zones = {name: self._zone_of(table) for name, table in self.tables.items()}
        for key, own in self.settings.joined.items():
            name = table_name(key)
            refuse_name_of_joined(key, [*self.tables, *self.skipped, *declarations])
            sources = [table_name(source.table) for source in own.sources.values()]
            may_come = any(takes(pattern, source) for source in sources for pattern in self.patterns)
            declarations[name] = joined_of(name, own, zones, names, self._zone, may_come=may_come)
        return declarations

    def _complete(self, name: TableName, table: TableSettings) -> CompletedTable:
        """Return a table with its settings completed by the catalogue.

        A table that a settings store refuses, or whose columns from the catalogue or the source cannot be in a
        lake, fails alone: the result has its error. Raises ConfigError for any other invalid setting.
        """
        if name in self.refused:
            return _failed_table(table, self.refused[name])
        try:
            completed = with_catalogue(name, table, answers := self.catalogue_answers.answers.get(name, ()))
            history = self._history(completed.table)
            snapshots_of(name, completed.table, history)
            check_history(name, completed, history, is_asked=self.asks(name) and not answers)
            return completed
        except (ConfigError, SchemaConflict) as error:
            if isinstance(error, ConfigError) and not self.asks(name):
                raise
            return _failed_table(table, error)

    def _history(self, table: TableSettings) -> History | None:
        """Return the history options of a table; None for a mirror."""
        return history_of(table.track, table.history, self._zone_of(table)) if table.mode == "history" else None

    def _zone_of(self, table: TableSettings) -> str:
        """Return the time zone of the source of a table, in which its days begin."""
        return str(table.source.get("source_zone", self._zone))

    @property
    def _zone(self) -> str:
        return str(self.settings.source.get("source_zone", "UTC"))  # the source refuses an invalid one

    @property
    def state(self) -> Path:
        """The folder of the lock, and of a ledger in a file."""
        return self.base / self.settings.pipeline.state

    @property
    def full_listing(self) -> int:
        """The time for which a full listing of objects is valid, in microseconds."""
        return micros_of(self.settings.pipeline.full_listing)

    @property
    def look_at_all_every(self) -> int:
        """Microseconds between two full discoveries, which examine all tables without a notice."""
        return micros_of(self.settings.queue.look_at_all_every)

    @property
    def poll(self) -> float:
        """Seconds between two polls of a pipeline that is followed."""
        return micros_of(self.settings.pipeline.poll) / 1_000_000

    def dimension(
        self, name: TableName, lateness: Lateness = ORDERED, sequences: Sequences = Sequences.TIMES
    ) -> Dimension:
        """Return the dimension of a table; `lateness` is the default for a table without one."""
        table, completed = self.tables[name], self._completed_tables[name]
        if completed.error is not None:
            raise completed.error
        policies, history, siblings = policies_of(table.schema_), self._history(table), self.siblings_of(name)
        snapshots = snapshots_of(name, table, history)
        if snapshots is not None and snapshots.older is Older.SPLICE:
            lateness = ORDERED  # the source has only snapshots, and a late one is spliced in
        lateness = lateness_of(table, lateness)
        return Dimension(
            name=name,
            schema=completed.shape.schema,
            key=tuple(table.key),
            deletes=Deletes(table.deletes),
            match=match_of(name, table, lateness),
            lateness=lateness,
            ties=Ties(table.ties),
            sequences=sequences,
            tolerance=tolerance_of(table.quarantine),
            policies=policies,
            keeps_text=any(map(self._keeps_text, (name, *siblings))),
            orders=completed.orders,
            announced=completed.announced,
            snapshots=snapshots,
            history=history,
            source_name=None if self.source_names[name] == name else self.source_names[name],
            readers=1 + len(siblings),
        )

    @property
    def depends_on_source(self) -> bool:
        """True if only the source can check the settings of a table."""
        return any(table.match is not None and table.lateness is None for table in self.tables.values())

    def check_lateness(self, lateness: Lateness) -> None:
        """Raise ConfigError if the settings of a table contradict the lateness of its source."""
        for name, table in self.tables.items():
            match_of(name, table, lateness_of(table, lateness))

    def _keeps_text(self, name: TableName) -> bool:
        """Return True if a table needs the source text of its rows; its sibling tables then have it as well."""
        table = self.tables[name]
        may_be_refused = table.ties == "quarantine" or table.match is not None
        return table.mode == "history" or may_be_refused or policies_of(table.schema_).may_refuse

    def cautions(self, name: TableName) -> Sequence[str]:
        """Return cautions about the catalogue's answers for a table."""
        return (*self.catalogue_answers.changes.get(name, ()), *self._completed_tables[name].cautions)

    def comments(self, name: TableName) -> tuple[str | None, Mapping[str, str]]:
        """Return the comments of the source's catalogue: of a table, and of columns made from one source column."""
        completed, answers = self._completed_tables.get(name), self.catalogue_answers.answers.get(name, ())
        return (None, {}) if completed is None or not answers else comments_of(completed, answers[-1].table)

    def rules(self, name: TableName) -> TableRules:
        """Return the rules of a table and the declared columns of its source."""
        return self._completed_tables[name].rules

    def declared(self) -> Mapping[TableName, Schema]:
        """Return the columns in the lake of each table whose source columns are declared, or in the catalogue.

        Joined tables are included if the columns of their sources are known.
        """
        with_columns = [
            name
            for name, completed in self._completed_tables.items()
            if len(completed.rules.source) and not completed.error
        ]
        joined = {name: joining.dimension for name, joining in self._joinings.items() if joining is not None}
        dimensions = {name: self.dimension(name) for name in with_columns} | joined
        return {name: dimension.stored.schema for name, dimension in dimensions.items()}

    def formats(self) -> Mapping[TableName, Mapping[str, str]]:
        """Return the formats of columns that have one, by the name of the table at the source."""
        return {
            self.source_names[name]: formats_of(table)
            for name, table in self._valid_tables.items()
        }

    @property
    def _valid_tables(self) -> Mapping[TableName, TableSettings]:
        """The tables with valid settings: a table that fails alone must not affect the source of another."""
        return {name: table for name, table in self.tables.items() if name not in self.refused}

    def source_options(self) -> Mapping[TableName, Mapping[str, Any]]:
        """Return the settings of each table that only its source reads, by the name of the table at the source."""
        return {self.source_names[name]: table.source for name, table in self._valid_tables.items()}

    def siblings_of(self, name: TableName) -> Sequence[TableName]:
        """Return the other tables of the same source table, including those whose unreadable entry may name it."""
        return [
            other
            for other, source_name in self.source_names.items()
            if (source_name == self.source_names[name] or other in self._unreadable) and other != name
        ]

    def with_source_tables(self, source_tables: Iterable[TableName]) -> Configuration:
        """Return the settings with the tables of the source that match a pattern."""
        return validate(self.content, self.file, tuple(source_tables), self.merged).with_refused(self.refused)

    def with_refused(self, refused: Mapping[TableName, LakewardError]) -> Configuration:
        """Return the settings with more tables that fail alone."""
        if refused.keys() <= self.refused.keys():
            return self
        refused = {**self.refused, **refused}
        return Configuration(
            self.settings, self.file, self.content, self.catalogue_answers, self.merged, refused
        )

    @property
    def stored_tables(self) -> Sequence[TableName]:
        """The tables with settings in a settings store; an error in one of them does not stop the others."""
        names = [table_name(name) for name in self.settings.tables if name in self.merged.alone]
        return [name for name in names if name in self.tables and name not in self.refused]

    def refuse(self, name: TableName, error: LakewardError) -> None:
        """Let a table fail alone whose settings are found to be invalid after validation."""
        self.refused = {**self.refused, name: error}
        self._completed_tables[name] = _failed_table(self.tables[name], error)

    @property
    def left_out(self) -> Mapping[TableName, Sequence[str]]:
        """The tables that a settings store leaves out, with the origins of that setting."""
        stored = {table_name(name): name for name in self.merged.alone if name in self.settings.tables}
        return {
            name: self.merged.places_of(text)
            for name, text in stored.items()
            if name in self.skipped and ("tables", text, "skip") in self.merged.places
        }

    @property
    def error_origins(self) -> ErrorOrigins:
        """The origins of values, for error messages."""
        return ErrorOrigins(self.content, self.merged, self.file)

    def entry_of(self, name: TableName) -> str:
        """Return the name of the entry of a table."""
        entries = (text for text in self.content.get("tables", {}) if not is_pattern(text))
        return next((text for text in entries if plain(name_of_entry(text)) == plain(name)), str(name))

    def asks(self, name: TableName) -> bool:
        """Return True if the catalogue is queried for a table."""
        return self.settings.catalogue is not None and self.tables[name].catalogue.ask

    def with_answers(self, answers: CatalogueAnswers) -> Configuration:
        """Return the settings with the answers of the catalogue."""
        return Configuration(self.settings, self.file, self.content, answers, self.merged, self.refused)

    def format_options(self) -> Mapping[TableName, Mapping[str, Any]]:
        """Return the keys of each table that the table format reads."""
        joined = {name: self._joined_settings(name).model_extra or {} for name in self.joined}
        return {**{name: table.model_extra or {} for name, table in self._valid_tables.items()}, **joined}

    def _joined_settings(self, name: TableName) -> JoinedSettings:
        return {table_name(key): settings for key, settings in self.settings.joined.items()}[name]

    def maintenance_of(self, name: TableName) -> MaintainSettings:
        """Return the maintenance settings of a table or joined table."""
        return self._joined_settings(name).maintain if name in self.joined else self.tables[name].maintain

    def choose(self, wanted: Iterable[str]) -> list[TableName]:
        """Return the named tables, or all; raises ConfigError for a name that is no table of the source."""
        names = self.choose_any(wanted)
        if joined := [name for name in names if name in self.joined]:
            raise ConfigError(
                f"{joined[0]} is a joined table",
                found="this command is for tables that a source feeds",
                todo="Name one of its sources: " + ", ".join(map(str, self.sources_of(joined[0]))),
            )
        return names or list(self.tables)

    def choose_any(self, wanted: Iterable[str]) -> list[TableName]:
        """Return the named tables and joined tables; raises ConfigError for a name that is not configured."""
        if not self.tables and not self.patterns:
            raise ConfigError(f"{self.file}: no table is configured", todo="Name the tables under [tables].")
        by_name = {plain(name): name for name in (*self.tables, *self.joined)}
        names = [by_name.get(plain(name), name) for name in map(table_name, wanted)]
        for name in names:
            if name not in by_name.values():
                self._refuse_left_out(name)
                raise ConfigError(
                    f"{name} is not configured",
                    found="the tables are " + (", ".join(map(str, by_name.values())) or "none"),
                    todo=nearest(str(name), map(str, by_name.values())),
                )
        return names

    def _refuse_left_out(self, name: TableName) -> None:
        """Raise ConfigError for a table that is left out, with the origin of that setting."""
        entry = next((skipped for skipped in self.skipped if plain(skipped) == plain(name)), None)
        if entry is None:
            return
        names = (self.entry_of(entry), *(pattern for pattern in self.patterns if takes(pattern, entry)))
        places = (self.merged.places.get(("tables", text, "skip")) for text in names)
        place = next(filter(None, places), str(self.file))
        key = "`skip = true`" if place == str(self.file) else "`skip = true`, or `enabled = false`,"
        raise ConfigError(
            f"{entry} is left out",
            found=f"{key} stands in {place}",
            todo="Change it there, and run again: the table continues where it stopped.",
        )

    def sources_of(self, joined: TableName) -> Sequence[TableName]:
        """Return the sources of a joined table."""
        return [*dict.fromkeys(source.table for source in self.joined[joined].sources.values())]


def _source_name_of_refused(name: TableName, own: Mapping[str, Any] | None) -> TableName:
    """Return the name at the source of a table that fails alone, as far as its settings can be read."""
    reads = None if own is None else own.get("reads")
    return name_of_entry(reads) if isinstance(reads, str) else name


def _failed_table(table: TableSettings, error: LakewardError) -> CompletedTable:
    return CompletedTable(table=table, rules=rules_of(table), shape=shape((), Schema(())), error=error)


def load(place: Path | str) -> Configuration:
    """Read settings from a file or an address such as `ssm:/lakeward/shop`, and from the stores that they name.

    A table of a store with invalid settings fails alone. Raises ConfigError, which says what is wrong and where,
    for any other invalid setting, and StoreUnreachable if a store does not answer.
    """
    merged, file = read_settings_of(place)
    return validate(merged.content, file, merged=merged)


def from_content(content: Mapping[str, Any], file: Path) -> Configuration:
    """Return the settings of a program, with those of the stores that they name."""
    merged = with_stores(content, file)
    return validate(merged.content, file, merged=merged)


def validate(
    content: Mapping[str, Any],
    file: Path,
    source_tables: Collection[TableName] = (),
    merged: MergedSettings | None = None,
) -> Configuration:
    """Check the content of a settings file, with [defaults] and patterns applied to each table.

    Patterns match `source_tables`, the tables of the source. A table with settings in a settings store (see
    `merged`) fails alone. Raises ConfigError for any other invalid setting.
    """
    if merged is None or not (merged.alone or merged.broken):
        return _validated(content, file, source_tables, merged)
    refused = find_refused_tables(
        ErrorOrigins(content, merged, file), lambda part: _validated(part, file, merged=merged)
    )
    tables = {name: own for name, own in content.get("tables", {}).items() if name not in refused}
    by_name = {name_of_entry(name): error for name, error in refused.items()}
    others = [table for table in source_tables if plain(table) not in map(plain, by_name)]
    valid = _validated({**content, "tables": tables}, file, others, merged, by_name)
    return Configuration(valid.settings, file, content, NO_ANSWERS, merged, by_name)


def _validated(
    content: Mapping[str, Any],
    file: Path,
    source_tables: Collection[TableName] = (),
    merged: MergedSettings | None = None,
    refused: Mapping[TableName, LakewardError] = MappingProxyType({}),
) -> Configuration:
    defaults, tables = content.get("defaults", {}), content.get("tables", {})
    if isinstance(defaults, Mapping) and isinstance(tables, Mapping):
        tables = split_modes(with_patterns(tables, defaults, source_tables))
    with ErrorOrigins(content, merged or MergedSettings(content=content, places={}), file).defaults():
        settings = validated(Settings, {**content, "tables": tables}, str(file))
    for section in ("source", "target", "ledger", "lease", "statistics"):
        options = getattr(settings, section)
        if options is not None and "kind" not in options:
            raise ConfigError(f"{file}: [{section}] has no `kind`", todo="`lakeward plugins` lists all kinds.")
    if any("kind" not in options for options in settings.notify):
        raise ConfigError(f"{file}: [[notify]] has no `kind`", todo="`lakeward plugins` lists all kinds.")
    return Configuration(settings, file, content, NO_ANSWERS, merged, refused)
