"""Periodic reload of settings whose stores may change while a pipeline is followed."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import structlog

from lakeward.core.dimension import TableName
from lakeward.core.errors import LakewardError
from lakeward.core.settings.layers import MergedSettings
from lakeward.entrypoints.container import Container, bind_spark
from lakeward.entrypoints.settings.configuration import Configuration, validate
from lakeward.entrypoints.startup.context import complete

log = structlog.get_logger()

OF_TABLES: Final = ("defaults", "tables", "joined")
"""Sections whose changes take effect at once; changes of other sections take effect with the next start."""


@dataclass(slots=True)
class SettingsWatch:
    """Reads settings again with `read` every `every` seconds of `clock`, and builds a container if they changed.

    `merged` are the settings as last read, `due` is the time of the next read. Settings that cannot be read or are
    invalid cause one warning, and the previous settings stay in effect.
    """

    read: Callable[[], MergedSettings]
    container: Container
    every: float
    clock: Callable[[], float]
    remake: Callable[[Container, Configuration], Container]
    merged: MergedSettings = field(init=False)
    due: float = field(init=False)
    remade: Container | None = None
    warned: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.merged = self.container.configured().merged
        self.due = self.clock() + self.every

    def is_changed(self) -> bool:
        """Read if it is due; return True if the set of tables or their settings changed."""
        if self.remade is None and self.clock() >= self.due:
            try:
                self._read_again()
            except LakewardError as error:
                bind_spark(self.container)
                self._warn(error)
            self.due = self.clock() + self.every
        return self.remade is not None

    def take(self) -> Container | None:
        """Return the container for the changed settings, once; None if nothing changed."""
        remade, self.remade = self.remade, None
        if remade is not None:
            self.container = remade
        return remade

    def refuse(self, before: Container, error: LakewardError) -> None:
        """Return to the container `before`, since the changed settings failed; retry a retryable error."""
        self.container = before
        bind_spark(before)
        if error.retryable:
            self.merged = before.configured().merged
        self._warn(error)

    def _read_again(self) -> None:
        merged = self.read()
        if _essence(merged) == _essence(self.merged):
            self.warned.clear()
            return
        before: Configuration = self.container.configured()
        content = _with_tables_of(before.content, merged.content)
        if others := _other_sections(before.content, merged.content):
            self._warn_of_sections(others)
        if content == before.content and _errors(merged) == _errors(before.merged):
            self.merged = merged
            return
        container = self.remake(self.container, _complete_configuration(before, replace(merged, content=content)))
        container.source(), container.target(), container.queue()
        self.remade, self.merged = container, merged
        self.warned.clear()
        _log_change(before, container.configured())

    def _warn(self, error: LakewardError) -> None:
        if str(error) not in self.warned:
            log.warning(
                "changed settings are invalid: the previous ones stay in effect",
                error=error.what,
                found=error.found,
                todo=error.todo,
            )
            self.warned.add(str(error))

    def _warn_of_sections(self, sections: Sequence[str]) -> None:
        if str(sections) not in self.warned:
            log.warning("changed settings of the pipeline take effect with the next start", sections=sections)
            self.warned.add(str(sections))


def _complete_configuration(before: Configuration, merged: MergedSettings) -> Configuration:
    return complete(validate(merged.content, before.file, merged=merged), asks=True)


def _essence(merged: MergedSettings) -> object:
    """Return the parts of settings that are compared; errors are equal if their texts are."""
    return merged.content, _errors(merged), merged.alone


def _errors(merged: MergedSettings) -> Mapping[str, str]:
    return {name: str(error) for name, error in merged.broken.items()}


def _with_tables_of(before: Mapping[str, Any], now: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings `before` with the sections of tables replaced by those of `now`."""
    others = {section: value for section, value in before.items() if section not in OF_TABLES}
    return {**others, **{section: now[section] for section in OF_TABLES if section in now}}


def _other_sections(before: Mapping[str, Any], now: Mapping[str, Any]) -> Sequence[str]:
    """Return the changed sections of the pipeline; `settings` is excluded, since a read applies its stores."""
    names = dict.fromkeys((*before, *now))
    return [
        section
        for section in names
        if section not in (*OF_TABLES, "settings") and before.get(section) != now.get(section)
    ]


def _log_change(before: Configuration, now: Configuration) -> None:
    log.info(
        "the settings have changed",
        new=_names(name for name in now.tables if name not in before.tables),
        left_out=_names(name for name in before.tables if name not in now.tables),
        changed=_names(name for name, own in now.tables.items() if before.tables.get(name, own) != own),
        failing=_names(now.refused),
    )


def _names(names: Iterable[TableName]) -> list[str]:
    return [*map(str, names)]
