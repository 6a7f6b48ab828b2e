"""The tutorials are run: their files, commands and output are those of a real run."""

from __future__ import annotations

import re
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import outside
import pytest
from pages import Fence, as_compared, fences
from pyspark.sql import SparkSession

from lakeward.entrypoints.cli import main

PAGES = ["docs/start/tutorial.md", pytest.param("docs/start/star-schema.md", marks=pytest.mark.long)]


class Duck:
    """DuckDB as the page uses it, with the extensions that are installed as packages: tests touch no network."""

    def __init__(self, connection: Any) -> None:
        self.connection = connection

    def install_extension(self, name: str) -> None:
        """Do nothing: the extension is installed."""

    def load_extension(self, name: str) -> None:
        """Do nothing: the extension is loaded."""

    def sql(self, query: str) -> Any:
        return self.connection.sql(query)


@pytest.fixture
def in_utc(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Set the time zone to UTC, because times are shown in the user's zone."""
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


@pytest.mark.spark
@pytest.mark.usefixtures("in_utc")
@pytest.mark.parametrize("page", PAGES)
def test_a_tutorial_can_be_followed_to_the_letter(
    page: str,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    duck = outside.duck()
    monkeypatch.setattr("duckdb.connect", lambda: Duck(duck))
    scope: dict[str, Any] = {}
    blocks = iter(fences(page))
    languages = [run_block(block, blocks, scope, capfd) for block in blocks]
    duck.close()
    scope["lake"].close()
    assert languages.count("console") >= 5
    assert languages.count("python") >= 2


def run_block(
    block: Fence, blocks: Iterator[Fence], scope: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> str:
    if block.language in ("csv", "toml"):
        Path(block.name).write_text(block.content, "utf-8")
    elif block.language == "console":
        for command, printed in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", block.content, re.MULTILINE):
            assert as_compared(run_command(command, scope, capfd)) == as_compared(printed)
    elif block.language == "python":
        capfd.readouterr()
        exec(block.content, scope)  # noqa: S102  # the page's own code
        assert capfd.readouterr().out.strip().splitlines() == next(blocks).content.splitlines()
    return block.language


def run_command(command: str, scope: dict[str, Any], capfd: pytest.CaptureFixture[str]) -> str:
    capfd.readouterr()
    match shlex.split(command):
        case ["mkdir", "-p", folder]:
            Path(folder).mkdir(parents=True)
        case ["echo", "$?"]:
            return str(scope["code"])
        case ["lakeward", *arguments]:
            scope["code"] = main(arguments)
        case words:
            raise ValueError(f"the test cannot run {words}")
    return capfd.readouterr().out
