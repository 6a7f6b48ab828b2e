"""The project that `lakeward plugins new` writes. Its tests fail until the methods of the plugin are written."""

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
"""The kinds of plugins that have a template, each with the table of the settings that names it."""

_WORDS: Final = {"source": "source", "table": "table format", "queue": "queue"}
_NAME: Final = re.compile(r"[a-z][a-z0-9]*(_[a-z0-9]+)*")
_PREFIX: Final = "lakeward_"


@dataclass(frozen=True, slots=True)
class Project:
    """The project of a plugin: its `kind`, and the `name` by which settings call it."""

    kind: str
    name: str

    @classmethod
    def named(cls, kind: str, text: str, registry: Registry, announced: Mapping[str, str]) -> Project:
        """Return the project for a name as the user writes it.

        `announced` has the modules of installed plugins by name. Raises ConfigError for a name that is invalid, or
        that an adapter of this kind or an installed plugin has.
        """
        name = text.replace("-", "_").removeprefix(_PREFIX)
        if not _NAME.fullmatch(name):
            raise ConfigError(
                f"{text!r} is no name of a plugin",
                todo="Use lower-case letters and digits, words joined by _ or -, a letter first: parquet_manifest.",
            )
        registered: Mapping[str, FactoryRegistry[Any]] = {
            "source": registry.sources,
            "table": registry.formats,
            "queue": registry.queues,
        }
        owner = registered[kind].origin(name) if name in registered[kind] else announced.get(name)
        if owner is not None:
            raise ConfigError(
                f"there is a {_WORDS[kind] if name in registered[kind] else 'plugin'} called {name!r} already",
                found=f"found {owner}",
                todo="Choose another name: two plugins of one name cannot be installed.",
            )
        return cls(kind, name)

    @property
    def module(self) -> str:
        """The name of the module."""
        return _PREFIX + self.name

    @property
    def distribution(self) -> str:
        """The name of the distribution."""
        return self.module.replace("_", "-")

    def content(self) -> Mapping[str, str]:
        """Return the contents of the files by their paths in the project."""
        folder = f"src/{self.module}"
        return {
            "pyproject.toml": self._render("pyproject.toml"),
            "README.md": self._render("README.md"),
            f"{folder}/__init__.py": self._render(self.kind, "__init__.py"),
            f"{folder}/{self.kind}.py": self._render(self.kind, f"{self.kind}.py"),
            "tests/test_contract.py": self._render(self.kind, "test_contract.py"),
        }

    def _render(self, *path: str) -> str:
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
    """Write a project into a new folder. Raises ConfigError if it exists or cannot be written."""
    try:
        folder.mkdir(parents=True)
        for path, content in project.content().items():
            file = folder / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(content, "utf-8")
    except FileExistsError as error:
        raise ConfigError(
            f"{folder} exists already",
            todo="Nothing was changed. Name another folder with --to, or move it away.",
        ) from error
    except OSError as error:
        raise ConfigError(
            f"{folder} cannot be written", found=str(error), todo="Name another with --to."
        ) from error
