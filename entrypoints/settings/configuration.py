"""Validated settings of a pipeline, and the dimensions, rules and policies of its tables."""

from __future__ import annotations

from collections import defaultdict
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
from lakeward.core.joined.declaration import Joined
from lakeward.core.schema import Schema
from lakeward.core.settings.layers import MergedSettings
from lakeward.core.settings.source_catalogue import NO_ANSWERS, CatalogueAnswers
from lakeward.core.shaping.shape import shape
from lakeward.core.shaping.shaped_source import TableRules
from lakeward.core.text.suggestions import nearest
from lakeward.entrypoints.settings.error_origins import ErrorOrigins
from lakeward.entrypoints.settings.models.history import history_of
from lakeward.entrypoints.settings.models.joined_tables import JoinedSettings, check_joined, joined_of
from lakeward.entrypoints.settings.models.maintenance import MaintainSettings, micros
from lakeward.entrypoints.settings.models.row_match import match_of
from lakeward.entrypoints.settings.models.sections import (
    Settings,
    TableSettings,
    lateness_of,
    policies_of,
    snapshots_of,
    tolerance_of,
)
from lakeward.entrypoints.settings.patterns import (
    is_pattern,
    name_of_entry,
    plain,
    table_name,
    takes,
    with_patterns,
)
from lakeward.entrypoints.settings.refused_tables import find_refused_tables
from lakeward.entrypoints.settings.sibling_tables import read_by, with_both
from lakeward.entrypoints.settings.stores import read_settings_of, with_stores
from lakeward.entrypoints.settings.table_definition import CompletedTable, check_history, rules_of, with_catalogue
from lakeward.plugins.options import validated

FILE: Final = "lakeward.toml"
BESIDE: Final = ("__changes", "__quarantine")
"""Suffixes of the side tables that lakeward keeps for each table."""


class Configured:
    """Validated settings, with the file they are from."""

    def __init__(
        self,
        settings: Settings,
        file: Path,
        content: Mapping[str, Any] = MappingProxyType({}),
        said: CatalogueAnswers = NO_ANSWERS,
        merged: MergedSettings | None = None,
        refused: Mapping[TableName, LakewardError] = MappingProxyType({}),
    ) -> None:
        self.settings = settings
        self.file = file
        self.base = file.absolute().parent
        self.content = content
        self.said = said
        self.merged = MergedSettings(content=content, places={}) if merged is None else merged
        self.refused = refused
        self.patterns = [name for name in settings.tables if is_pattern(name)]
        named = {name: table for name, table in settings.tables.items() if name not in self.patterns}
        every = {table_name(name): table for name, table in named.items()}
        self.tables = {name: table for name, table in every.items() if not table.skip and name not in refused}
        self.skipped = every.keys() - self.tables.keys() - refused.keys()
        if duplicates := _duplicate_names(name for name, table in named.items() if table_name(name) in self.tables):
            raise ConfigError(
                f"{file}: names under [tables] are of the same table, or differ only in case",
                found=", ".join(duplicates),
                todo="The lake has one table of that name. Say `skip = true` of the other.",
            )
        entries = {name: self._entry(name) for name in refused}
        self._unread = {name for name, own in entries.items() if own is None}
        of_refused = {name: _said_to_read(name, own) for name, own in entries.items()}
        self.read = {**of_refused, **read_by(self.tables, self.skipped)}
        self.tables |= dict.fromkeys(refused, TableSettings())
        made = {name: self._complete(name, table) for name, table in self.tables.items()}
        self.tables = {name: one.table for name, one in made.items()}
        self._made = made
        self.joined = self._joined()
        _check_names([*(self.tables.keys() - refused.keys()), *self.joined])
        known = {name: self.dimension(name) for name, one in made.items() if one.error is None}
        keyless = {name for name in known if not self.tables[name].key and not self.asks(name)}
        self._joinings = {name: check_joined(one, known, keyless) for name, one in self.joined.items()}

    def _entry(self, name: TableName) -> Mapping[str, Any] | None:
        """Return the settings of a table from all layers; None if its entry cannot be read."""
        tables = self.merged.content.get("tables", {})
        entries = (own for text, own in tables.items() if plain(name_of_entry(text)) == plain(name))
        own = next(entries, None)
        return own if isinstance(own, Mapping) else None

    def _joined(self) -> Mapping[TableName, Joined]:
        """Return the joined tables that are declared."""
        found: dict[TableName, Joined] = {}
        names = [table_name(said) for said in self.settings.joined]
        zones = {name: self._zone_of(table) for name, table in self.tables.items()}
        for said, one in self.settings.joined.items():
            name = table_name(said)
            if is_pattern(said) or plain(name) in map(plain, [*self.tables, *self.skipped, *found]):
                raise ConfigError(
                    f"{name}: a joined table cannot be called so",
                    found="another table has that name" if not is_pattern(said) else "its name stands for many",
                    todo="Give it a name of its own: the lake has one table of each, whatever its case.",
                )
            may_come = any(
                takes(pattern, table_name(s.table)) for s in one.sources.values() for pattern in self.patterns
            )
            found[name] = joined_of(name, one, zones, names, self._zone, may_come=may_come)
        return found

    def _complete(self, name: TableName, table: TableSettings) -> CompletedTable:
        """Return a table with what the catalogue adds.

        Where there is a catalogue, and where its columns are none that a lake could have, it stops itself alone. So
        does one of which a settings store says what cannot be.
        """
        if name in self.refused:
            return _failed(table, self.refused[name])
        try:
            made = with_catalogue(name, table, answers := self.said.answers.get(name, ()))
            history = self._history(made.table)
            snapshots_of(name, made.table, history)
            check_history(name, made, history, is_asked=self.asks(name) and not answers)
            return made
        except (ConfigError, SchemaConflict) as error:
            if isinstance(error, ConfigError) and not self.asks(name):
                raise
            return _failed(table, error)

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
        return micros(self.settings.pipeline.full_listing)

    @property
    def look_at_all_every(self) -> int:
        """Microseconds between two full discoveries, which examine all tables without a notice."""
        return micros(self.settings.queue.look_at_all_every)

    @property
    def poll(self) -> float:
        """Seconds between two polls of a pipeline that is followed."""
        return micros(self.settings.pipeline.poll) / 1_000_000

    def dimension(
        self, name: TableName, lateness: Lateness = ORDERED, sequences: Sequences = Sequences.TIMES
    ) -> Dimension:
        """Return the dimension of a table; `lateness` is the default for a table without one."""
        table, made = self.tables[name], self._made[name]
        if made.error is not None:
            raise made.error
        policies, history, siblings = policies_of(table.schema_), self._history(table), self.siblings_of(name)
        snapshots = snapshots_of(name, table, history)
        if snapshots is not None and snapshots.older is Older.SPLICE:
            lateness = ORDERED  # the source has snapshots only, and a late one is put in its place
        late = lateness_of(table, lateness)
        return Dimension(
            name=name,
            schema=made.shape.schema,
            key=tuple(table.key),
            deletes=Deletes(table.deletes),
            match=match_of(name, table, late),
            lateness=late,
            ties=Ties(table.ties),
            sequences=sequences,
            tolerance=tolerance_of(table.quarantine),
            policies=policies,
            keeps_text=any(map(self._keeps_text, (name, *siblings))),
            orders=made.orders,
            announced=made.announced,
            snapshots=snapshots,
            history=history,
            reads=None if self.read[name] == name else self.read[name],
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
        return (*self.said.changes.get(name, ()), *self._made[name].cautions)

    def comments(self, name: TableName) -> tuple[str | None, Mapping[str, str]]:
        """Return the comments of the source's catalogue: of a table, and of columns made of one of the source."""
        made, answers = self._made.get(name), self.said.answers.get(name, ())
        if made is None or not answers:
            return None, {}
        source = answers[-1].table
        of_source = {column.name: column.comment for column in source.columns if column.comment}
        found = {name: of_source.get(*roots) for name, roots in made.shape.needs.items() if len(roots) == 1}
        return source.comment, {name: comment for name, comment in found.items() if comment}

    def rules(self, name: TableName) -> TableRules:
        """Return the rules of a table and the declared columns of its source."""
        return self._made[name].rules

    def declared(self) -> Mapping[TableName, Schema]:
        """Return the columns of each table whose columns the settings or the catalogue say, as the lake has them.

        Of a joined one they are known once those of its sources are.
        """
        known = [n for n, one in self._made.items() if len(one.rules.source) and not one.error]
        joined = {n: one.dimension for n, one in self._joinings.items() if one is not None}
        made = {name: self.dimension(name) for name in known} | joined
        return {name: one.stored.schema for name, one in made.items()}

    def formats(self) -> Mapping[TableName, Mapping[str, str]]:
        """Return the formats of columns that have one, by the name of the table at the source."""
        return {
            self.read[name]: {column: c.format for column, c in table.columns.items() if c.format is not None}
            for name, table in self._fine.items()
        }

    @property
    def _fine(self) -> Mapping[TableName, TableSettings]:
        """The tables with valid settings: one that fails alone must not affect the source of another."""
        return {name: table for name, table in self.tables.items() if name not in self.refused}

    def source_options(self) -> Mapping[TableName, Mapping[str, Any]]:
        """Return the settings of each table that only its source reads, by the name of the table at the source."""
        return {self.read[name]: table.source for name, table in self._fine.items()}

    def siblings_of(self, name: TableName) -> Sequence[TableName]:
        """Return the other tables of the same source table, including those whose unreadable entry may name it."""
        return [
            other
            for other, read in self.read.items()
            if (read == self.read[name] or other in self._unread) and other != name
        ]

    def with_found(self, found: Iterable[TableName]) -> Configured:
        """Return the settings with those tables of the source that match its patterns."""
        return validate(self.content, self.file, tuple(found), self.merged).with_refused(self.refused)

    def with_refused(self, refused: Mapping[TableName, LakewardError]) -> Configured:
        """Return the settings with more tables that fail alone."""
        if refused.keys() <= self.refused.keys():
            return self
        every = {**self.refused, **refused}
        return Configured(self.settings, self.file, self.content, self.said, self.merged, every)

    @property
    def alone(self) -> Sequence[TableName]:
        """The tables with settings in a settings store: an error of one stops no other."""
        named = [table_name(name) for name in self.settings.tables if name in self.merged.alone]
        return [name for name in named if name in self.tables and name not in self.refused]

    def refuse(self, name: TableName, error: LakewardError) -> None:
        """Let a table fail alone whose settings turn out to be invalid after validation."""
        self.refused = {**self.refused, name: error}
        self._made[name] = _failed(self.tables[name], error)

    @property
    def left_out(self) -> Mapping[TableName, Sequence[str]]:
        """The tables that a settings store leaves out, with the places that say so."""
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
        named = (text for text in self.content.get("tables", {}) if not is_pattern(text))
        return next((text for text in named if plain(name_of_entry(text)) == plain(name)), str(name))

    def asks(self, name: TableName) -> bool:
        """Return True if the catalogue is queried for a table."""
        return self.settings.catalogue is not None and self.tables[name].catalogue.ask

    def with_said(self, said: CatalogueAnswers) -> Configured:
        """Return the settings with the answers of the catalogue."""
        return Configured(self.settings, self.file, self.content, said, self.merged, self.refused)

    def format_options(self) -> Mapping[TableName, Mapping[str, Any]]:
        """Return the keys of each table that the table format reads."""
        joined = {name: self._said_of_joined(name).model_extra or {} for name in self.joined}
        return {**{name: table.model_extra or {} for name, table in self._fine.items()}, **joined}

    def _said_of_joined(self, name: TableName) -> JoinedSettings:
        return {table_name(said): one for said, one in self.settings.joined.items()}[name]

    def upkeep(self, name: TableName) -> MaintainSettings:
        """Return the maintenance settings of a table or joined table."""
        return self._said_of_joined(name).maintain if name in self.joined else self.tables[name].maintain

    def choose(self, wanted: Iterable[str]) -> list[TableName]:
        """Return the named tables, or all; raises ConfigError for a name that is no table of the source."""
        names = self.choose_any(wanted)
        if joined := [name for name in names if name in self.joined]:
            raise ConfigError(
                f"{joined[0]} is a joined table",
                found="what this command is for, it has of its sources",
                todo="Name one of them: " + ", ".join(map(str, self.sources_of(joined[0]))),
            )
        return names or list(self.tables)

    def choose_any(self, wanted: Iterable[str]) -> list[TableName]:
        """Return the named tables and joined tables; raises ConfigError for a name that is not configured."""
        if not self.tables and not self.patterns:
            raise ConfigError(f"{self.file}: no table is configured", todo="Name them under [tables].")
        known = {plain(name): name for name in (*self.tables, *self.joined)}
        names = [known.get(plain(name), name) for name in map(table_name, wanted)]
        for name in names:
            if name not in known.values():
                self._refuse_left_out(name)
                raise ConfigError(
                    f"{name} is not configured",
                    found="the tables are " + (", ".join(map(str, known.values())) or "none"),
                    todo=nearest(str(name), map(str, known.values())),
                )
        return names

    def _refuse_left_out(self, name: TableName) -> None:
        """Raise ConfigError for a table that is left out, with the origin of that setting."""
        entry = next((one for one in self.skipped if plain(one) == plain(name)), None)
        if entry is None:
            return
        names = (self.entry_of(entry), *(pattern for pattern in self.patterns if takes(pattern, entry)))
        places = (self.merged.places.get(("tables", text, "skip")) for text in names)
        place = next(filter(None, places), str(self.file))
        key = "`skip = true`" if place == str(self.file) else "`skip = true`, or `enabled = false`,"
        raise ConfigError(
            f"{entry} is left out",
            found=f"{key} stands in {place}",
            todo="Change it there, and run again: the table goes on where it was.",
        )

    def sources_of(self, joined: TableName) -> Sequence[TableName]:
        """Return the sources of a joined table."""
        return [*dict.fromkeys(source.table for source in self.joined[joined].sources.values())]


def _said_to_read(name: TableName, own: Mapping[str, Any] | None) -> TableName:
    """Return the name at the source of a table that fails alone, as far as its settings have it."""
    reads = None if own is None else own.get("reads")
    return name_of_entry(reads) if isinstance(reads, str) else name


def _failed(table: TableSettings, error: LakewardError) -> CompletedTable:
    return CompletedTable(table=table, rules=rules_of(table), shape=shape((), Schema(())), error=error)


def load(place: Path | str) -> Configured:
    """Read settings: a file, or an address such as `ssm:/lakeward/shop`, with the stores that they name.

    Raises ConfigError, saying where and what, for anything wrong with them but a table of a store, which fails
    alone; StoreUnreachable where a store does not answer.
    """
    merged, file = read_settings_of(place)
    return validate(merged.content, file, merged=merged)


def of_program(content: Mapping[str, Any], file: Path) -> Configured:
    """Return settings given by a program, with those of the stores that they name."""
    merged = with_stores(content, file)
    return validate(merged.content, file, merged=merged)


def validate(
    content: Mapping[str, Any],
    file: Path,
    found: Collection[TableName] = (),
    merged: MergedSettings | None = None,
) -> Configured:
    """Check the content of a settings file, with [defaults] and patterns put under each table.

    `found` are the tables that the source has: patterns take theirs of them. What is wrong with a table of which a
    settings store says something, as `merged` has it, fails that table alone.
    """
    if merged is None or not (merged.alone or merged.broken):
        return _validated(content, file, found, merged)
    refused = find_refused_tables(
        ErrorOrigins(content, merged, file), lambda part: _validated(part, file, merged=merged)
    )
    tables = {name: own for name, own in content.get("tables", {}).items() if name not in refused}
    by_name = {name_of_entry(name): error for name, error in refused.items()}
    others = [table for table in found if plain(table) not in map(plain, by_name)]
    made = _validated({**content, "tables": tables}, file, others, merged, by_name)
    return Configured(made.settings, file, content, NO_ANSWERS, merged, by_name)


def _validated(
    content: Mapping[str, Any],
    file: Path,
    found: Collection[TableName] = (),
    merged: MergedSettings | None = None,
    refused: Mapping[TableName, LakewardError] = MappingProxyType({}),
) -> Configured:
    defaults, tables = content.get("defaults", {}), content.get("tables", {})
    if isinstance(defaults, Mapping) and isinstance(tables, Mapping):
        tables = with_both(with_patterns(tables, defaults, found))
    with ErrorOrigins(content, merged or MergedSettings(content=content, places={}), file).defaults():
        settings = validated(Settings, {**content, "tables": tables}, str(file))
    for part in ("source", "target", "ledger", "lease", "statistics"):
        said = getattr(settings, part)
        if said is not None and "kind" not in said:
            raise ConfigError(f"{file}: [{part}] has no `kind`", todo="`lakeward plugins` lists what there is.")
    if any("kind" not in said for said in settings.notify):
        raise ConfigError(f"{file}: [[notify]] has no `kind`", todo="`lakeward plugins` lists what there is.")
    return Configured(settings, file, content, NO_ANSWERS, merged, refused)


def _duplicate_names(names: Iterable[str]) -> Sequence[str]:
    """Return pairs of names that are side tables of one another, or differ only in case."""
    found: dict[TableName, list[str]] = defaultdict(list)
    for name in names:
        found[plain(table_name(name))].append(name)
    return [name for alike in found.values() if len(alike) > 1 for name in alike]


def _check_names(tables: Collection[TableName]) -> None:
    for name in tables:
        for suffix in BESIDE:
            other = TableName(name.schema, name.table.removesuffix(suffix))
            if name.table.endswith(suffix) and other in tables:
                raise ConfigError(
                    f"{name}: the name is that of a side table of {other}",
                    todo="Keep the two in lakes of their own, with a settings file each.",
                )
