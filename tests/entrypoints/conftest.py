"""What the tests of the command line have in common."""

from __future__ import annotations

from pathlib import Path

import pytest
import shop
import third_party
from commands import Command, Ended
from projects import write

from lakeward.entrypoints.cli import main


@pytest.fixture
def lakeward(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    """Run a command in the test's folder, which has a plugin `shop` installed."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAKEWARD_CONFIG", raising=False)
    monkeypatch.setenv("COLUMNS", "300")
    third_party.announce(monkeypatch, tmp_path / "site", "shop")
    monkeypatch.setattr(shop, "REPORTS", [])

    def run(*arguments: str) -> Ended:
        capsys.readouterr()
        code = main(arguments)
        printed = capsys.readouterr()
        return Ended(code, printed.out, printed.err)

    return run


@pytest.fixture
def in_shop(lakeward: Command, tmp_path: Path) -> Command:
    """Return the command, in a folder with the settings of the shop."""
    write(tmp_path, shop.SETTINGS)
    return lakeward
