"""Layers of settings: what each store says, merged in order, and where each value is from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from lakeward.core.errors import ConfigError, LakewardError

Path: TypeAlias = tuple[str, ...]
"""The path of a value: `("pipeline", "name")`, `("tables", "shop.orders", "key")`."""

BY_NAME: Final = ("tables", "joined")
"""Sections in which each key is the name of a table that has keys of its own."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsEntry:
    """The settings of one table in a store, by its name as written there; or the `error` why they cannot be read.

    `origin` names the place, such as `dynamodb table lakeward, item shop.orders`.
    """

    table: str
    origin: str
    keys: Mapping[str, Any] = field(default_factory=dict)
    error: LakewardError | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingsLayer:
    """The settings of one store, nested as in `lakeward.toml`, and where they are from.

    `origins` has the place of a table by its name in `content`, where that is more exact than `origin`. `broken`
    has the errors of entries that cannot be read, by table. An error in a table fails only that table, unless the
    layer is a file that `fails_whole`.
    """

    origin: str
    content: Mapping[str, Any] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    broken: Mapping[str, LakewardError] = field(default_factory=dict)
    fails_whole: bool = False

    def place(self, path: Path) -> str:
        """Return where a value is from."""
        return self.origins.get(path[1], self.origin) if path[:1] == ("tables",) and path[1:] else self.origin


def layer_of_entries(
    origin: str,
    entries: Iterable[SettingsEntry],
    identity: Callable[[str], Hashable] = str.lower,
    content: Mapping[str, Any] | None = None,
) -> SettingsLayer:
    """Return the layer of a store that has an entry for each table, and `content` for the rest.

    Two entries whose table names have the same `identity` are both broken: neither has precedence.
    """
    listed = list(entries)
    numbers = Counter(identity(entry.table) for entry in listed)
    broken: dict[str, LakewardError] = {}
    for entry in listed:
        if entry.error is not None:
            broken[entry.table] = entry.error
        elif numbers[identity(entry.table)] > 1:
            alike = [other.origin for other in listed if identity(other.table) == identity(entry.table)]
            broken[entry.table] = _more_than_one(entry.table, alike)
    whole = [entry for entry in listed if entry.table not in broken]
    return SettingsLayer(
        origin=origin,
        content={**(content or {}), "tables": {entry.table: entry.keys for entry in whole}},
        origins={entry.table: entry.origin for entry in whole},
        broken=broken,
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedSettings:
    """The merged layers: the settings, the place of each value, and the tables that fail alone.

    `places` has a place for each key of a section and of each table. `alone` are the names of tables that a store
    other than the file has settings for: an error in one of them stops no other table. `broken` are tables with an
    entry that cannot be read; what other layers say of them is not in `content`.
    """

    content: Mapping[str, Any]
    places: Mapping[Path, str]
    alone: frozenset[str] = frozenset()
    broken: Mapping[str, LakewardError] = field(default_factory=dict)

    def places_of(self, table: str) -> Sequence[str]:
        """Return the places that have settings of a table, in the order of its keys."""
        return [*dict.fromkeys(place for path, place in self.places.items() if path[:2] == ("tables", table))]

    def of_values(self) -> Iterable[tuple[Path, Any, str]]:
        """Yield each value with its path and its place, section by section."""
        for path, value in _leaves(self.content):
            yield path, value, self.places[path]


def merge(layers: Sequence[SettingsLayer], identity: Callable[[str], Hashable] = str.lower) -> MergedSettings:
    """Merge layers: for each key of a section or a table, the last layer that has it counts.

    A value is taken whole: lists and tables below a key are not merged. Tables of two layers are the same where
    their names have the same `identity`; the spelling of the first layer is kept. A table that one layer has under
    two names is broken, unless that layer is a file that `fails_whole`.
    """
    content: dict[str, Any] = {}
    places: dict[Path, str] = {}
    names: dict[Hashable, str] = {}
    alone: set[str] = set()
    broken: dict[str, LakewardError] = {}
    for layer in layers:
        spelled = {name: names.get(identity(name), name) for name in _names(layer)}
        if not layer.fails_whole:
            broken |= {spelled[name]: error for name, error in _names_used_twice(layer, identity).items()}
        for path, value in _leaves(layer.content):
            target = (path[0], spelled[path[1]], *path[2:]) if path[:1] == ("tables",) and path[1:] else path
            _put(content, places, target, value, layer.place(path))
        for name, written in spelled.items():
            names.setdefault(identity(name), written)
        broken |= {spelled[name]: error for name, error in layer.broken.items()}
        if not layer.fails_whole:
            alone |= {*spelled.values()}
    if broken:
        content["tables"] = {name: keys for name, keys in content.get("tables", {}).items() if name not in broken}
        places = {path: place for path, place in places.items() if not _is_of(path, broken)}
    return MergedSettings(content=content, places=places, alone=frozenset(alone), broken=broken)


def _names_used_twice(layer: SettingsLayer, identity: Callable[[str], Hashable]) -> Mapping[str, LakewardError]:
    """Return an error for each table name of a layer that has another spelling in the same layer."""
    spellings: dict[Hashable, list[str]] = {}
    for name in _names(layer):
        spellings.setdefault(identity(name), []).append(name)
    return {
        name: _more_than_one(name, [f"{other!r} in {layer.place(('tables', other))}" for other in alike])
        for alike in spellings.values()
        if len(alike) > 1
        for name in alike
    }


def _more_than_one(table: str, places: Iterable[str]) -> ConfigError:
    """Return the error for several entries of one table."""
    return ConfigError(
        f"{table}: more than one entry is for this table",
        found=" and ".join(places),
        todo="Remove all but one; names are compared without case.",
    )


def _is_of(path: Path, names: Iterable[str]) -> bool:
    """Return True if a path is of one of these tables."""
    return path[:1] == ("tables",) and len(path) > 1 and path[1] in names


def _names(layer: SettingsLayer) -> Sequence[str]:
    """Return the names of the tables of a layer, with those of broken entries."""
    tables = layer.content.get("tables", {})
    return [*dict.fromkeys((*(tables if isinstance(tables, Mapping) else ()), *layer.broken))]


def _leaves(content: Mapping[str, Any]) -> Iterable[tuple[Path, Any]]:
    """Yield the values that are taken whole, with their paths; a section without keys is such a value."""
    for section, values in content.items():
        if not isinstance(values, Mapping) or not values:
            yield (section,), values
            continue
        for key, value in values.items():
            if section in BY_NAME and isinstance(value, Mapping) and value:
                yield from (((section, key, inner), inner_value) for inner, inner_value in value.items())
            else:
                yield (section, key), value


def _put(content: dict[str, Any], places: dict[Path, str], path: Path, value: Any, place: str) -> None:
    """Put a value at its path, replacing what is there; an empty table does not replace one with keys."""
    *parents, key = path
    inside = content
    parent: Path = ()
    for part in parents:
        parent = (*parent, part)
        if not isinstance(inside.get(part), dict) or parent in places:
            inside[part] = {}
            places.pop(parent, None)
        inside = inside[part]
    present = inside.get(key)
    if _is_empty(value) and isinstance(present, dict) and path not in places:
        return
    for path_below in [other for other in places if other[: len(path)] == path]:
        del places[path_below]
    inside[key] = {} if _is_empty(value) else value
    places[path] = place


def _is_empty(value: Any) -> bool:
    """Return True for a table without keys."""
    return isinstance(value, Mapping) and not value
