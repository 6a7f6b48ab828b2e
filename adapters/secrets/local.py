"""Secrets in the environment and in files."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lakeward.core.errors import ConfigError
from lakeward.core.ports import Secrets
from lakeward.core.settings.secrets import Secret
from lakeward.plugins import Options, Registry, Runtime, hookimpl


@dataclass(frozen=True, slots=True)
class EnvironmentSecrets:
    """Secrets in environment variables."""

    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)

    def read(self, name: str) -> Secret:
        """Return the value of a variable; raises ConfigError if it is not set, or empty."""
        value = self.environment.get(name, "")
        if not value:
            raise ConfigError(
                f"the secret env:{name} is not there",
                todo=f"Set the environment variable {name}.",
            )
        return Secret(value.encode("utf-8", "surrogateescape"))


@dataclass(frozen=True, slots=True)
class FileSecrets:
    """Secrets in files, each with one secret; relative paths start in the folder `base`."""

    base: Path

    def read(self, name: str) -> Secret:
        """Return the content of a file without its last line end.

        Raises ConfigError if it is empty or unreadable.
        """
        try:
            content = (self.base / name).expanduser().read_bytes()
        except OSError as error:
            raise ConfigError(
                f"the secret file:{name} cannot be read",
                found=error.strerror,
                todo="Correct the path, or permit this user to read the file.",
            ) from error
        content = content.removesuffix(b"\n").removesuffix(b"\r")
        if not content:
            raise ConfigError(f"the secret file:{name} is empty", todo="Write the secret into the file.")
        return Secret(content)


def build_environment(options: Options, runtime: Runtime) -> Secrets:
    """Build the reader of the environment."""
    return EnvironmentSecrets()


def build_files(options: Options, runtime: Runtime) -> Secrets:
    """Build the reader of files; relative paths start in the folder of the settings file."""
    return FileSecrets(runtime.base)


@hookimpl
def register(registry: Registry) -> None:
    """Register the secrets `env` and `file`."""
    registry.secrets.add("env", build_environment)
    registry.secrets.add("file", build_files)
