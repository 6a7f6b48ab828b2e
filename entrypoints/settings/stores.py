"""Reads settings from a file or the address of a store, and merges the stores that it names."""

from __future__ import annotations

import re
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from lakeward.adapters.aws.s3.access import is_url
from lakeward.adapters.settings_stores.file import SettingsFile
from lakeward.core.errors import ConfigError, PluginError
from lakeward.core.ports import SettingsStore
from lakeward.core.settings.layers import MergedSettings, SettingsLayer, merge
from lakeward.entrypoints.settings.models.sections import StoresSettings
from lakeward.entrypoints.settings.patterns import name_of_entry, plain
from lakeward.plugins import Runtime
from lakeward.plugins.options import validated

_SECTION: Final = "settings"
_LISTS: Final = ("notify",)
"""Sections that may be a list of tables, such as `[[notify]]`; the last layer that has one wins."""

_ADDRESS: Final = re.compile(r"(?P<kind>[a-z][a-z0-9-]+):(?P<name>.+)")


def with_stores(content: Mapping[str, Any], file: Path) -> MergedSettings:
    """Return settings given by a program, merged with those of the stores that they name."""
    return _merge_stores(SettingsLayer(origin=str(file), content=content, fails_whole=True), file)


def read_settings_of(place: Path | str) -> tuple[MergedSettings, Path]:
    """Return the merged layers of a file or an address, not validated, and the file that paths are relative to."""
    store = address(place)
    if store is None:
        return _merge_stores(SettingsFile(Path(place), fails_whole=True).read(), Path(place)), Path(place)
    file = Path(store["name"].rpartition("/")[2] or store["kind"])
    return _merge_stores(_store(store, file).read(), file), file


def address(place: Path | str) -> Mapping[str, str] | None:
    """Return the `kind` and `name` of the store in an address; None for the path of a file.

    A text that looks like an address is a path if such a file exists.
    """
    text = str(place)
    if is_url(text):
        return {"kind": "s3", "name": text}
    match = _ADDRESS.fullmatch(text)
    return None if match is None or isinstance(place, Path) or Path(text).exists() else match.groupdict()


def _merge_stores(base: SettingsLayer, file: Path) -> MergedSettings:
    layers = [base, *_stores_of(base, file)]
    if len(layers) > 1 or not base.fails_whole:
        _check_sections(layers)
    return merge(layers, _identity)


def _check_sections(layers: Sequence[SettingsLayer]) -> None:
    """Raise ConfigError for a section that is not a table: merging would hide the section of other layers."""
    for layer in layers:
        for section, content in layer.content.items():
            if not isinstance(content, Mapping) and not (section in _LISTS and isinstance(content, list)):
                raise ConfigError(
                    f"{layer.origin}: [{section}] must be a table of keys",
                    todo="docs/reference/settings.md lists every section.",
                )


def _identity(text: str) -> Hashable:
    return plain(name_of_entry(text))


def _stores_of(base: SettingsLayer, file: Path) -> Sequence[SettingsLayer]:
    """Return the layers of the stores that a layer names, in order."""
    section = base.content.get(_SECTION)
    if section is None:
        return ()
    content = section if isinstance(section, Mapping) else {"": section}
    settings = validated(StoresSettings, content, str(file), within=_SECTION)
    layers = []
    for number, options in enumerate(settings.stores, 1):
        if not isinstance(options.get("kind"), str):
            raise ConfigError(
                f"{file}: store {number} of [settings] has no `kind`",
                todo="`lakeward plugins` lists all kinds of settings stores.",
            )
        layer = _store(options, file).read()
        if _SECTION in layer.content:
            raise ConfigError(
                f"{layer.origin} has a section [settings]",
                todo="A store cannot name other stores: name all of them in the settings file.",
            )
        layers.append(layer)
    return layers


def _store(options: Mapping[str, Any], file: Path) -> SettingsStore:
    from lakeward.plugins.manager import load as load_plugins  # noqa: PLC0415  # only with stores
    from lakeward.plugins.manager import registry_of  # noqa: PLC0415

    registry = registry_of(load_plugins())
    runtime = Runtime(_no_spark, file.absolute().parent, file)
    own = {key: value for key, value in options.items() if key != "kind"}
    return registry.settings_stores.build(options["kind"], own, runtime)


def _no_spark() -> NoReturn:
    raise PluginError("a settings store cannot use Spark: settings are read before Spark is started")
