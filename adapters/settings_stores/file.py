"""Settings in files: `lakeward.toml` itself, and others that it names."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from lakeward.core.errors import ConfigError
from lakeward.core.ports import SettingsStore
from lakeward.core.settings.layers import SettingsLayer
from lakeward.core.settings.text import read_settings
from lakeward.plugins import Options, Registry, Runtime, hookimpl
from lakeward.plugins.options import validated


class FileStoreOptions(BaseModel):
    """A file of TOML, or with the same content as JSON."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: str = Field(min_length=1, description="The path of the file, relative to the settings file.")


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A settings file. With `fails_whole` an error in a table stops all tables, else only that table."""

    path: Path
    fails_whole: bool = False

    def read(self) -> SettingsLayer:
        """Return the content of the file; raises ConfigError if it does not exist, or is not TOML or JSON."""
        try:
            text = self.path.read_text(encoding="utf-8-sig")
        except FileNotFoundError as error:
            todo = (
                "Write one (docs/start/tutorial.md begins with that), or name another one: with --config on the "
                "command line, with --settings in a job."
                if self.fails_whole
                else "Write it, or correct the `name` of the store under [settings], or the address."
            )
            raise ConfigError(f"{self.path} does not exist", todo=todo) from error
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"{self.path} cannot be read",
                found=str(error),
                todo="Permit this user to read it, and write it in UTF-8.",
            ) from error
        place = str(self.path)
        return SettingsLayer(origin=place, content=read_settings(text, place), fails_whole=self.fails_whole)


def build(options: Options, runtime: Runtime) -> SettingsStore:
    """Build the reader of a file."""
    settings = validated(FileStoreOptions, options, str(runtime.file), within="settings.stores")
    return SettingsFile(runtime.file.parent / settings.name)


@hookimpl
def register(registry: Registry) -> None:
    """Register the settings store `file`."""
    registry.settings_stores.add("file", build)
