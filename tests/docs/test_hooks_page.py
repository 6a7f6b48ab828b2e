"""`docs/extend/hooks.md`: every hook and port as it is in the code, and an example that works."""

from __future__ import annotations

import ast
import importlib
import os
from collections.abc import Iterator
from dataclasses import fields
from itertools import count
from pathlib import Path
from typing import Any

import pytest
import shop
import third_party
from pages import codes, fences, sections, tables, text
from repository import ROOT, ports_as_written

from lakeward.adapters.formats.delta.table import DeltaTable
from lakeward.adapters.formats.hudi.table import HudiTable
from lakeward.adapters.formats.iceberg.table import IcebergTable
from lakeward.adapters.memory import MemoryTable
from lakeward.adapters.spark.frames.event_frame import EVENT_COLUMNS
from lakeward.core.merge.facts import Capability
from lakeward.core.pipeline.job import BATCH_STEPS
from lakeward.entrypoints.cli import main
from lakeward.plugins import API, Registry, Runtime
from lakeward.plugins.manager import load, registry_of
from lakeward.plugins.testing import QueueUnderTest, queue_contract
from lakeward.plugins.testing.laws import queues

PAGE = "docs/extend/hooks.md"
PORTS_OF_1_0 = (
    "Source Landing Strays Scout SourceCatalogue Statistics Secrets Store Target Table Companion Quarantine Queue "
    "Ledger"
)
(EXAMPLE,) = fences(PAGE, "python")[:1]


def signature(function: ast.FunctionDef) -> str:
    arguments = function.args
    arguments.args = [argument for argument in arguments.args if argument.arg != "self"]
    assert function.returns is not None
    if "property" in map(ast.unparse, function.decorator_list):
        return f"{function.name}: {ast.unparse(function.returns)}"
    return f"{function.name}({ast.unparse(arguments)}) -> {ast.unparse(function.returns)}"


def hooks() -> list[str]:
    tree = ast.parse((ROOT / "plugins/hookspecs.py").read_text("utf-8"))
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    specified = (node for node in functions if "hookspec" in map(ast.unparse, node.decorator_list))
    return [signature(node) for node in specified]


def ports() -> Iterator[tuple[str, list[str]]]:
    for node in ast.parse(ports_as_written()).body:
        if isinstance(node, ast.ClassDef) and any("Protocol" in ast.unparse(base) for base in node.bases):
            methods = [signature(part) for part in node.body if isinstance(part, ast.FunctionDef)]
            yield node.name, methods + [ast.unparse(p) for p in node.body if isinstance(p, ast.AnnAssign)]


def test_the_hooks_and_ports_of_the_page_are_those_of_the_code() -> None:
    headings = [*sections(PAGE, 3)]
    assert [heading for heading in headings if "(" in heading] == [f"`{hook}`" for hook in hooks()]
    names = [heading for heading in headings if "(" not in heading]
    assert len(names) == len({*names})
    assert {*names} == {name for name, _ in ports()}


@pytest.mark.parametrize(("port", "members"), [*ports()])
def test_a_port_on_the_page_has_the_members_of_the_code(port: str, members: list[str]) -> None:
    page_members = [code for code in codes(sections(PAGE, 3)[port]) if ") -> " in code or ": " in code]
    assert sorted(page_members) == sorted(members)


def test_the_registry_attributes_and_the_runtime_attributes_are_named() -> None:
    assert all(f"registry.{name}" in text(PAGE) for name in vars(Registry()))
    named = " ".join(code for code in codes(sections(PAGE)["The registry"]) if code.startswith("runtime."))
    public = {name for name in dir(Runtime) if not name.startswith("_")} - {"jars", "settings"}
    assert all(f"runtime.{name}" in named for name in public)


def test_the_columns_of_the_frame_and_the_capabilities_are_all_there() -> None:
    (frame,) = tables(sections(PAGE)["The frame of Spark adapters"])
    assert [codes(row["column"])[0] for row in frame] == [*EVENT_COLUMNS]
    (capabilities,) = tables(sections(PAGE)["Capabilities"])
    assert {codes(row["capability"])[0] for row in capabilities} == {item.value for item in Capability}


def test_the_page_says_what_is_new_in_the_version_of_the_plugin_api() -> None:
    section = sections(PAGE)["The version of the plugin API"]
    assert {f"{API}", f"LAKEWARD_API = {API}"} <= {*codes(section)}
    (versions,) = tables(section)
    (changed,) = (row["what changed"] for row in versions if row["version"] == "2.0")
    new = {name for name, _ in ports()} - set(PORTS_OF_1_0.split())
    assert {name for name in new if f"[{name}](#{name.lower()})" not in changed} == set()
    assert "`sent`" in changed, "a ledger must keep it"


def test_the_page_says_which_capabilities_our_tables_have() -> None:
    of_memory = {field.name: field.default for field in fields(MemoryTable)}["capabilities"]
    assert of_memory == frozenset(Capability)
    assert IcebergTable.capabilities == DeltaTable.capabilities == HudiTable.capabilities == of_memory
    assert "`iceberg`, `delta` and `hudi` have all of them." in text(PAGE)


def test_the_steps_are_named_in_order() -> None:
    page_members = [code for code in codes(sections(PAGE)["The steps of a batch"]) if code in BATCH_STEPS]
    assert tuple(dict.fromkeys(page_members)) == BATCH_STEPS


def installed_example(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    third_party.install(monkeypatch, tmp_path / "site", EXAMPLE.name.removesuffix(".py"), EXAMPLE.content)
    return importlib.import_module("lakeward_bells")


def test_the_example_registers_and_a_run_does_what_its_bells_say(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    example = installed_example(monkeypatch, tmp_path)
    third_party.announce(monkeypatch, tmp_path / "shop", "shop")
    monkeypatch.setattr(shop, "REPORTS", [])
    assert registry_of(load()).queues.origin("bells") == "lakeward_bells"
    (announced,) = [fence.content for fence in fences(PAGE, "toml") if fence.name == "pyproject.toml"]
    assert '[project.entry-points.lakeward]\nbells = "lakeward_bells"' in announced
    with pytest.raises(Exception, match="Did you mean 'folder'"):
        example.build({"tables": [], "foldr": "x"}, Runtime(lambda: None, tmp_path))

    (settings,) = [fence.content for fence in fences(PAGE, "toml") if fence.name == "lakeward.toml"]
    (tmp_path / "lakeward.toml").write_text(
        f'{shop.SETTINGS}\n[tables."shop.lines"]\nkey = ["id"]\ncolumns = {{ id = "int" }}\n{settings}', "utf-8"
    )
    bell = tmp_path / "bells" / "shop.orders"
    bell.parent.mkdir()
    monkeypatch.chdir(tmp_path)
    assert main(["run", "--log", "off"]) == 0
    assert {report.table for report in shop.REPORTS} == {"shop.orders", "shop.lines"}
    shop.REPORTS.clear()
    bell.touch()
    assert main(["run", "--log", "off"]) == 0
    assert [report.table for report in shop.REPORTS] == ["shop.orders", "shop.orders"]
    assert "shop.orders: batch 2, 2 rows" in capsys.readouterr().out
    assert not bell.exists()
    assert main(["run", "--log", "off"]) == 0


def bells(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> QueueUnderTest:
    example = installed_example(monkeypatch, tmp_path)
    folder, times = tmp_path / "bells", count(1)
    folder.mkdir()

    def ring(table: str) -> None:
        (folder / table).touch()
        os.utime(folder / table, ns=(0, next(times)))

    return QueueUnderTest(
        open=lambda: example.build({"tables": queues.TABLES}, Runtime(lambda: None, tmp_path)), ring=ring
    )


TestBells = queue_contract(bells)
