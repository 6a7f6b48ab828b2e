"""Third-party plugins: a module, and metadata with its entry point."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from lakeward.plugins import API


def install(
    monkeypatch: pytest.MonkeyPatch, folder: Path, module: str, code: str, *, called: str | None = None
) -> None:
    """Put a module and its metadata on the path. Without another version it is for this plugin API."""
    folder.mkdir(parents=True, exist_ok=True)
    version = "" if "LAKEWARD_API" in code else f"\nLAKEWARD_API = {API}\n"
    (folder / f"{module}.py").write_text(dedent(code) + version, "utf-8")
    announce(monkeypatch, folder, module, called)


def announce(monkeypatch: pytest.MonkeyPatch, folder: Path, module: str, called: str | None = None) -> None:
    """Put a folder on the path whose metadata has the entry point of a module."""
    describe(folder, module, called)
    monkeypatch.syspath_prepend(str(folder))


def describe(folder: Path, module: str, called: str | None = None) -> None:
    """Write metadata whose entry point makes a module a plugin of lakeward, under its own name or another."""
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text(f"[lakeward]\n{called or module} = {module}\n", "utf-8")
