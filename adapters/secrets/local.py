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
    """Secrets in variables of the environment."""

    environment: Mapping[str, str] = field(default_factory=lambda: os.environ, repr=False)

    def read(self, name: str) -> Secret:
        """Return what a variable has."""
        found = self.environment.get(name, "")
        if not found:
            raise ConfigError(
                f"the secret env:{name} is not there",
                todo=f"Set the environment variable {name}.",
            )
        return Secret(found.encode("utf-8", "surrogateescape"))


@dataclass(frozen=True, slots=True)
class FileSecrets:
    """Secrets in files, each alone in its own; relative paths are below a folder."""

    base: Path

    def read(self, name: str) -> Secret:
        """Return what a file has, without the end of its line."""
        try:
            found = (self.base / name).expanduser().read_bytes()
        except OSError as error:
            raise ConfigError(
                f"the secret file:{name} cannot be read",
                found=error.strerror,
                todo="Name the file that has it, and nothing else.",
            ) from error
        found = found.removesuffix(b"\n").removesuffix(b"\r")
        if not found:
            raise ConfigError(f"the secret file:{name} is empty", todo="Write the secret into it.")
        return Secret(found)


def build_environment(options: Options, runtime: Runtime) -> Secrets:
    """Make what reads the environment."""
    return EnvironmentSecrets()


def build_files(options: Options, runtime: Runtime) -> Secrets:
    """Make what reads files; relative paths are relative to the settings file."""
    return FileSecrets(runtime.base)


@hookimpl
def register(registry: Registry) -> None:
    """Register the secrets `env` and `file`."""
    registry.secrets.add("env", build_environment)
    registry.secrets.add("file", build_files)
