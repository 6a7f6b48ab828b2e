"""A project of a plugin as `lakeward plugins new` writes it: whole, and red until it works."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Any, Final

from lakeward.core.errors import ConfigError
from lakeward.plugins import API, FactoryRegistry, Registry

SECTIONS: Final = {"source": "source", "table": "target", "queue": "queue"}
"""The kinds of plugins that can be begun so, and the table of the settings that names one."""

_WORDS: Final = {"source": "source", "table": "table format", "queue": "queue"}
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_PREFIX: Final = "lakeward_"


@dataclass(frozen=True, slots=True)
class Project:
    """A plugin of a `kind`, which settings will call by its `name`."""

    kind: str
    name: str

    @classmethod
    def called(cls, kind: str, given: str, registry: Registry, announced: Mapping[str, str]) -> Project:
        """Return the project of a name.

        Raises ConfigError for one that is none, that another of its kind has, or by which a plugin is announced.
        """
        name = given.replace("-", "_").removeprefix(_PREFIX)
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"{given!r} is no name of a plugin",
                todo="Use small letters and digits, words joined by _ or -, a letter first: parquet_manifest.",
            )
        shelves: Mapping[str, FactoryRegistry[Any]] = {
            "source": registry.sources,
            "table": registry.formats,
            "queue": registry.queues,
        }
        found = shelves[kind].origin(name) if name in shelves[kind] else announced.get(name)
        if found is not None:
            raise ConfigError(
                f"there is a {_WORDS[kind] if name in shelves[kind] else 'plugin'} called {name!r} already",
                found=f"found {found}",
                todo="Name it otherwise: two of one name cannot be installed.",
            )
        return cls(kind, name)

    @property
    def module(self) -> str:
        """The module that is the plugin."""
        return _PREFIX + self.name

    @property
    def distribution(self) -> str:
        """What pip calls it."""
        return self.module.replace("_", "-")

    def content(self) -> Mapping[str, str]:
        """Return the files by their path in the project."""
        folder = f"src/{self.module}"
        return {
            "pyproject.toml": self._filled("pyproject.toml"),
            "README.md": self._filled("README.md"),
            f"{folder}/__init__.py": self._filled(self.kind, "__init__.py"),
            f"{folder}/{self.kind}.py": self._filled(self.kind, f"{self.kind}.py"),
            "tests/test_contract.py": self._filled(self.kind, "test_contract.py"),
        }

    def _filled(self, *path: str) -> str:
        templates = files("lakeward.entrypoints.plugin_project") / "templates"
        place = templates.joinpath(*path[:-1], f"{path[-1]}.template")
        return Template(place.read_text("utf-8")).substitute(
            name=self.name,
            module=self.module,
            distribution=self.distribution,
            title="".join(word.capitalize() for word in self.name.split("_")),
            words=_WORDS[self.kind],
            section=SECTIONS[self.kind],
            api=API,
        )


def write(project: Project, folder: Path) -> None:
    """Write a project into a folder of its own; raises ConfigError where that is there, or cannot be made."""
    try:
        folder.mkdir(parents=True)
        for path, content in project.content().items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content, "utf-8")
    except FileExistsError as error:
        raise ConfigError(
            f"{folder} is there already",
            todo="Nothing was changed. Name another folder with --to, or move it away.",
        ) from error
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be written", found=str(error), todo="Name another with --to."
        ) from error
