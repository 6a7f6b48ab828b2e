"""Plugins as others write and install them: a module, and metadata that announces it."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest


def install(monkeypatch: pytest.MonkeyPatch, folder: Path, module: str, code: str) -> None:
    """Put a module on the path with the entry point that makes it a plugin of lakeward."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{module}.py").write_text(dedent(code), "utf-8")
    info = folder / f"{module}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n", "utf-8")
    (info / "entry_points.txt").write_text(f"[lakeward]\n{module} = {module}\n", "utf-8")
    monkeypatch.syspath_prepend(str(folder))
