"""Settings that change in their stores while a pipeline is followed: they are read again, from time to time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import structlog

from lakeward.core.dimension import TableName
from lakeward.core.errors import LakewardError
from lakeward.core.settings.layers import MergedSettings
from lakeward.entrypoints.container import Container, bind_spark
from lakeward.entrypoints.settings.configuration import Configured, validate
from lakeward.entrypoints.startup.context import complete

log = structlog.get_logger()

OF_TABLES: Final = ("defaults", "tables", "joined")
"""Sections whose changes count at once; those of the pipeline as a whole count from the next start."""


@dataclass(slots=True)
class SettingsWatch:
    """Reads settings again with `read`, every so many seconds of a `clock`, and makes a container of what changed.

    `known` are the settings as they were last read. What cannot be read, or cannot be, is warned of once, and what
    is known still counts.
    """

    read: Callable[[], MergedSettings]
    container: Container
    every: float
    clock: Callable[[], float]
    remake: Callable[[Container, Configured], Container]
    known: MergedSettings = field(init=False)
    due: float = field(init=False)
    found: Container | None = None
    said: set[str] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.known = self.container.configured().merged
        self.due = self.clock() + self.every

    def is_changed(self) -> bool:
        """Read, where it is due; return whether there are other tables, or other settings of tables."""
        if self.found is None and self.clock() >= self.due:
            try:
                self._read_again()
            except LakewardError as error:
                bind_spark(self.container)
                self._warn(error)
            self.due = self.clock() + self.every
        return self.found is not None

    def take(self) -> Container | None:
        """Return a container by the settings as they are now, once; None where nothing changed."""
        found, self.found = self.found, None
        if found is not None:
            self.container = found
        return found

    def refuse(self, before: Container, error: LakewardError) -> None:
        """Go on with the container of before, since what changed cannot be; what may be over soon is tried anew."""
        self.container = before
        bind_spark(before)
        if error.retryable:
            self.known = before.configured().merged
        self._warn(error)

    def _read_again(self) -> None:
        merged = self.read()
        if _essence(merged) == _essence(self.known):
            self.said.clear()
            return
        before: Configured = self.container.configured()
        content = _with_tables_of(before.content, merged.content)
        if others := _other_sections(before.content, merged.content):
            self._warn_of_sections(others)
        if content == before.content and _errors(merged) == _errors(before.merged):
            self.known = merged
            return
        made = self.remake(self.container, _configured(before, replace(merged, content=content)))
        made.source(), made.target(), made.queue()
        self.found, self.known = made, merged
        self.said.clear()
        _log_change(before, made.configured())

    def _warn(self, error: LakewardError) -> None:
        if str(error) not in self.said:
            log.warning(
                "the settings cannot be taken in: those of before count",
                error=error.what,
                found=error.found,
                todo=error.todo,
            )
            self.said.add(str(error))

    def _warn_of_sections(self, sections: Sequence[str]) -> None:
        if str(sections) not in self.said:
            log.warning("settings of the pipeline count from the next start", sections=sections)
            self.said.add(str(sections))


def _configured(before: Configured, merged: MergedSettings) -> Configured:
    return complete(validate(merged.content, before.file, merged=merged), asks=True)


def _essence(merged: MergedSettings) -> object:
    """Return what of settings makes a difference: an error is the same where its text is."""
    return merged.content, _errors(merged), merged.alone


def _errors(merged: MergedSettings) -> Mapping[str, str]:
    return {name: str(error) for name, error in merged.broken.items()}


def _with_tables_of(before: Mapping[str, Any], now: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the settings of before with the sections of tables as they are now."""
    others = {section: said for section, said in before.items() if section not in OF_TABLES}
    return {**others, **{section: now[section] for section in OF_TABLES if section in now}}


def _other_sections(before: Mapping[str, Any], now: Mapping[str, Any]) -> Sequence[str]:
    """Return the sections of the whole pipeline that changed; which stores there are is taken in as it is read."""
    names = dict.fromkeys((*before, *now))
    return [one for one in names if one not in (*OF_TABLES, "settings") and before.get(one) != now.get(one)]


def _log_change(before: Configured, now: Configured) -> None:
    log.info(
        "the settings have changed",
        new=_names(name for name in now.tables if name not in before.tables),
        left_out=_names(name for name in before.tables if name not in now.tables),
        changed=_names(name for name, own in now.tables.items() if before.tables.get(name, own) != own),
        failing=_names(now.refused),
    )


def _names(names: Iterable[TableName]) -> list[str]:
    return [*map(str, names)]
