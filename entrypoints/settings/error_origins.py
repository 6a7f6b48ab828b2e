"""Origins of wrong settings in error messages: the entry of a store, or `[defaults]`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from lakeward.core.errors import ConfigError, LakewardError
from lakeward.core.settings.layers import MergedSettings
from lakeward.entrypoints.settings.patterns import is_pattern, name_of_entry, plain, takes

_LINE: Final = re.compile(
    r"\[tables\.\"(?P<table>.+?)\"(?P<path>(?:\.[^\]]*)?)\](?: has no key '(?P<unknown>[^']*)')?"
)
"""Pattern of the errors of `lakeward.plugins.options`: the table, and the path of keys."""

_DEFAULTS: Final = "defaults"


@dataclass(frozen=True, slots=True)
class ErrorOrigins:
    """Adds to an error of the settings where the wrong value is from.

    `content` is the merged content of all layers, or a part of it. `file` is the settings file, whose path begins
    each error.
    """

    content: Mapping[str, Any]
    merged: MergedSettings
    file: Path

    @contextmanager
    def defaults(self) -> Iterator[None]:
        """Within the context, name `[defaults]` in errors of a table whose wrong key is from there."""
        try:
            yield
        except ConfigError as error:
            raise self.of_defaults(error) from error.__cause__

    def of_defaults(self, error: ConfigError) -> ConfigError:
        """Return the error with `[defaults]` instead of the table, if the wrong key is from there."""
        lines = (error.found or "").splitlines()
        from_defaults = {number: new for number, line in enumerate(lines) if (new := self._from_defaults(line))}
        if not from_defaults:
            return error
        rewritten = [from_defaults[i][1] if i in from_defaults else line for i, line in enumerate(lines)]
        places = [self.merged.places.get((_DEFAULTS, key), str(self.file)) for key, _ in from_defaults.values()]
        places += [str(self.file)] if len(from_defaults) < len(lines) else []
        what = _with_places(error.what, places, self.file)
        return ConfigError(what, found="\n".join(dict.fromkeys(rewritten)), todo=error.todo)

    def _from_defaults(self, line: str) -> tuple[str, str] | None:
        """Return the key of `[defaults]` that a line is about, and the line with that origin."""
        match, key = _LINE.match(line), _key_in(line)
        if match is None or key is None:
            return None
        table, defaults = match["table"], self.content.get(_DEFAULTS, {})
        if not isinstance(defaults, Mapping) or key not in defaults or self._is_overridden(table, key):
            return None
        return key, f"[{_DEFAULTS}{line[match.end('table') + 1 :]}"

    def _is_overridden(self, table: str, key: str) -> bool:
        """Return True if the table itself, or a pattern that matches it, has the key."""
        tables = self.content.get("tables", {})
        name = name_of_entry(table)
        for text, own in tables.items() if isinstance(tables, Mapping) else ():
            is_own = text == table or plain(name_of_entry(text)) == plain(name)
            if (is_own or (is_pattern(text) and takes(text, name))) and isinstance(own, Mapping) and key in own:
                return True
        return False

    def of_table(self, name: str, error: LakewardError) -> LakewardError:
        """Return an error that begins with the table and the origins of its wrong keys.

        If the wrong keys are not known, all origins of settings of the table are named, stores before the settings
        file. `name` is that of the table's entry.
        """
        places = self._places(name, error)
        what = _with_places(error.what, places, self.file)
        new = [place for place in places if place not in what]
        origin = f"its settings are from {' and '.join(new)}" if new else None
        details = "\n".join(part for part in (error.found, origin) if part)
        return ConfigError(what if name in what else f"{name}: {what}", found=details, todo=error.todo)

    def _places(self, name: str, error: LakewardError) -> Sequence[str]:
        keys = [_key_in(line) for line in (error.found or "").splitlines()]
        of_keys = [self.merged.places.get(("tables", name, key)) for key in keys if key is not None]
        exact = [place for place in dict.fromkeys(of_keys) if place is not None]
        return exact or sorted(self.merged.places_of(name), key=lambda place: place == str(self.file))


def is_of_defaults(error: LakewardError) -> bool:
    """Return True if an error names `[defaults]`, which affects many tables."""
    return any(line.startswith(f"[{_DEFAULTS}") for line in (error.found or "").splitlines())


def _key_in(line: str) -> str | None:
    """Return the key of a table that a line is about.

    >>> _key_in('[tables."shop.orders".lateness]: must be a duration'), _key_in("[tables] must be a table of keys")
    ('lateness', None)
    """
    match = _LINE.match(line)
    if match is None:
        return None
    above = match["path"].removeprefix(".").partition(".")[0].strip('"')
    return above or match["unknown"]


def _with_places(what: str, places: Sequence[str], file: Path) -> str:
    """Return an error text with these places instead of the settings file at its beginning."""
    prefix = f"{file}: "
    origins = " and ".join(dict.fromkeys(places))
    return f"{origins}: {what.removeprefix(prefix)}" if origins and what.startswith(prefix) else what
