"""`docs/extend/write-a-plugin.md`: its code, its order of methods and its run are those of the examples."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from textwrap import indent
from typing import Any

import pytest
from pages import Fence, as_compared, codes, fences, prose, sections, tables, text
from repository import ROOT

from lakeward.adapters.memory import MemoryTable
from lakeward.core import ports
from lakeward.entrypoints.cli import main
from lakeward.entrypoints.plugin_project.scaffold import Project
from lakeward.plugins.testing import Bench, Law, MemoryLake, try_law
from lakeward.plugins.testing.laws.tables.first_laws import LAWS

PAGE = "docs/extend/write-a-plugin.md"
OF_A_READER = ("lakeward.toml", "write.py")
"""Files that a reader of the page writes for a run, and that no example has."""


def code() -> list[Fence]:
    return [block for block in fences(PAGE) if block.language in ("python", "toml")]


def is_part_of(block: str, content: str) -> bool:
    """Return whether a block is an exact part of a file, except for a common indentation."""
    return any(f"\n{indent(block, ' ' * depth)}" in f"\n{content}" for depth in (0, 4, 8))


@pytest.mark.parametrize("block", code(), ids=lambda block: f"{block.name} {block.content[:30]}")
def test_each_block_of_code_is_in_the_example_that_it_names(block: Fence) -> None:
    assert block.name in OF_A_READER or is_part_of(block.content, text(block.name))


def test_both_examples_are_shown() -> None:
    page_rows = {block.name.split("/")[1] for block in code() if block.name not in OF_A_READER}
    assert page_rows == {path.parent.name for path in (ROOT / "examples").glob("*/pyproject.toml")}


def test_each_method_of_the_ports_is_named() -> None:
    named = {*codes(prose(PAGE))} | {name for block in code() for name in re.findall(r"def (\w+)", block.content)}
    of = (ports.Source, ports.Table, ports.ChangeLog, ports.Quarantine, ports.Target)
    methods = [name for port in of for name in vars(port) if not name.startswith("_")]
    assert [name for name in methods if name not in named] == []


CALLED: list[str] = []
METHODS = [n for port in (ports.Table, ports.ChangeLog, ports.Quarantine) for n in vars(port) if n.islower()]


class RecordingTable(MemoryTable):
    """A table that records which methods of its ports are used."""

    def __getattribute__(self, name: str) -> Any:
        if name in METHODS:
            CALLED.append(name)
        return super().__getattribute__(name)


def methods_used_by(law: Law) -> Sequence[str]:
    CALLED.clear()
    with suppress(AssertionError):
        try_law(law, lambda: Bench(lake=MemoryLake(RecordingTable), examples=1, foreign=lambda dimension: None))
    return [*CALLED]


def test_the_order_of_the_methods_is_that_in_which_the_laws_need_them() -> None:
    (page_rows,) = tables(sections(PAGE)["A table, law by law"])
    methods_of_laws: dict[str, set[str]] = {}
    known_methods: set[str] = set()
    for law in LAWS:
        new_methods = {*methods_used_by(law)} - known_methods
        known_methods |= new_methods
        if new_methods:
            methods_of_laws[law.name] = new_methods
    assert {codes(row["law"])[0]: {*codes(row["first asks for"])} for row in page_rows} == methods_of_laws


def test_the_first_failure_is_the_one_on_the_page() -> None:
    (red,) = [block.content.strip() for block in fences(PAGE, "text") if block.name == "red"]
    raised = Project("table", "my_sqlite").content()["src/lakeward_my_sqlite/table.py"]
    assert f"raise {red.replace(': ', '(', 1)}".replace("Error(", 'Error("') + '")' in raised


def test_the_page_can_be_followed_to_the_letter(
    site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LAKEWARD_CONFIG", raising=False)
    monkeypatch.syspath_prepend(str(site))
    runs = 0
    for block in fences(PAGE):
        if block.name in OF_A_READER:
            Path(block.name).write_text(block.content, "utf-8")
        if block.name == "write.py":
            path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
            subprocess.run([sys.executable, block.name], check=True, env={**os.environ, "PYTHONPATH": path})
        elif block.language == "console":
            first, *rest = block.content.removeprefix("$ ").split("\n$ ")
            for command, _, printed in (part.partition("\n") for part in (first, *rest)):
                lakeward, *arguments = shlex.split(command)
                assert (lakeward, main(arguments)) == ("lakeward", 0)
                assert as_compared(capfd.readouterr().out) == as_compared(printed)
                runs += 1
    assert runs >= 4
