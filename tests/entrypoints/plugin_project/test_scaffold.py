"""`lakeward plugins new`: projects that can be installed at once, and whose laws are honestly red."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import third_party
from commands import Command
from repository import ports_as_written

from lakeward.entrypoints.cli import main
from lakeward.entrypoints.plugin_project.scaffold import Project
from lakeward.plugins import Registry

KINDS = ("source", "table", "queue")
NAME = "parquet_manifest"


@pytest.fixture(scope="module")
def projects(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of three new projects, one of each kind, each named by its kind."""
    folder = tmp_path_factory.mktemp("new")
    for kind in KINDS:
        assert main(["plugins", "new", kind, f"new_{kind}", "--to", str(folder / kind)]) == 0
        tests = folder / kind / "tests"
        (tests / "test_contract.py").rename(tests / f"test_{kind}.py")  # pytest runs all three in one process
    return folder


def in_a_process(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    paths = [*(str(folder / kind / "src") for kind in KINDS), os.environ.get("PYTHONPATH", "")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths))}
    environment |= {"PYTHONDONTWRITEBYTECODE": "1", "PYTEST_ADDOPTS": ""}
    return subprocess.run(
        [sys.executable, "-m", *command], cwd=folder, env=environment, capture_output=True, text=True, check=False
    )


def test_every_law_of_a_new_project_fails_because_a_method_is_not_written(projects: Path) -> None:
    printed = in_a_process(projects, "pytest", "-q", "-p", "no:cacheprovider", "--tb=line", *KINDS).stdout
    ended = re.search(r"^(\d+) failed(?:, \d+ skipped)? in ", printed, re.MULTILINE)
    assert ended is not None, printed[-3000:]
    causes = re.findall(r"^/.*\.py:\d+: (\w+): [A-Z].*\.$", printed, re.MULTILINE)
    assert causes == ["NotImplementedError"] * int(ended[1]), printed[-3000:]
    for kind in KINDS:
        assert re.search(rf"test_{kind}\.py::Test\w+: 0 held, [1-9]\d* failed", printed), printed[-3000:]


def test_a_new_project_can_be_installed_and_is_listed(
    projects: Path, lakeward: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ("--quiet", "--no-index", "--no-deps", "--no-build-isolation")
    target = ("--target", str(tmp_path / "installed"))
    installed = in_a_process(projects, "pip", "install", *options, *target, *(f"./{kind}" for kind in KINDS))
    assert installed.returncode == 0, installed.stderr
    monkeypatch.syspath_prepend(tmp_path / "installed")
    listed = lakeward("plugins").out
    for kind in KINDS:
        assert re.search(rf"{kind}.* +new_{kind} +lakeward_new_{kind}", listed), listed
        for module in [name for name in sys.modules if name.startswith(f"lakeward_new_{kind}")]:
            monkeypatch.delitem(sys.modules, module)


@pytest.mark.parametrize("kind", KINDS)
def test_the_code_of_a_new_project_has_the_style_of_ruff(projects: Path, kind: str) -> None:
    rules = ("--isolated", "--line-length", "116")
    selected = ("--select", "B,D100,D101,D102,D103,D104,E,F,I,RUF,UP,W")
    for command in (("check", *rules, *selected), ("format", *rules, "--diff")):
        checked = in_a_process(projects / kind, "ruff", *command)
        assert checked.returncode == 0, checked.stdout


def methods(code: str, name: str) -> dict[str, str]:
    """Return the methods of a class by their names, with what they take and return."""
    (found,) = [node for node in ast.parse(code).body if isinstance(node, ast.ClassDef) and node.name == name]
    public = [node for node in found.body if isinstance(node, ast.FunctionDef) and node.name[0] != "_"]
    shown = {one.name: f"{ast.unparse(one.args)} -> {ast.unparse(one.returns or one.args)}" for one in public}
    return {method: re.sub(r"\bF(_contra)?\b", "Frame", words) for method, words in shown.items()}


@pytest.mark.parametrize(
    ("kind", "title", "of"),
    [
        ("source", "Source", ["Source"]),
        ("queue", "Queue", ["Queue"]),
        ("table", "Table", ["Table", "ChangeLog", "Quarantine"]),
        ("table", "Target", ["Target"]),
    ],
)
def test_what_is_to_be_written_is_what_the_ports_ask_for(kind: str, title: str, of: list[str]) -> None:
    code, asked = Project(kind, NAME).content()[f"src/lakeward_{NAME}/{kind}.py"], ports_as_written()
    wanted = {name: words for port in of for name, words in methods(asked, port).items()}
    assert methods(code, f"ParquetManifest{title}") == wanted


def test_it_says_what_was_written_and_how_to_go_on(
    lakeward: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = lakeward("plugins", "new", "queue", "night-bell")
    assert (ended.code, ended.err) == (0, "")
    first, *_, last = ended.out.splitlines()
    assert first.startswith("Wrote lakeward-night-bell: pyproject.toml, README.md, src/lakeward_night_bell/")
    assert last == "Next: cd lakeward-night-bell && pip install -e '.[test]' && pytest"
    document = lakeward("plugins", "new", "queue", "lakeward-night-bell", "--to", "other", "--json").document
    assert (document["command"], document["module"]) == ("plugins new", "lakeward_night_bell")
    one, other = tmp_path / "lakeward-night-bell", tmp_path / "other"
    assert {str(path.relative_to(one)) for path in one.rglob("*") if path.is_file()} == {*document["files"]}
    assert all((one / file).read_bytes() == (other / file).read_bytes() for file in document["files"])


@pytest.mark.parametrize("name", ["", "Shop", "1st", "a b", "../shop", "a__b", "shop_", "café", "x.y"])
def test_what_is_no_name_is_refused(lakeward: Command, tmp_path: Path, name: str) -> None:
    ended = lakeward("plugins", "new", "table", name)
    assert ended.code == 1
    assert ended.err.startswith(f"error: {name!r} is no name of a plugin\n")
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


BELL = """
from lakeward.plugins import hookimpl

def build(options, runtime):
    pass

@hookimpl
def register(registry):
    registry.queues.add("night", build)
"""


@pytest.mark.parametrize("also", ["", "raise ImportError"])
@pytest.mark.parametrize(
    ("kind", "name", "said"),
    [
        ("queue", "night", "there is a queue called 'night' already\n  found acme_bell"),
        ("source", "bell", "there is a plugin called 'bell' already\n  found acme_bell"),
        ("table", "iceberg", "a table format called 'iceberg' already\n  found lakeward.adapters.formats.iceberg"),
    ],
)
def test_the_name_of_an_installed_plugin_is_refused(
    lakeward: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, name: str, said: str, also: str
) -> None:
    """A registered name is known where all plugins can be loaded; one that is broken stops nothing else."""
    third_party.install(monkeypatch, tmp_path / "more", "acme_bell", BELL, called="bell")
    if also:
        third_party.install(monkeypatch, tmp_path / "torn", "lakeward_torn", also)
    ended = lakeward("plugins", "new", kind, name)
    is_taken = not (also and name == "night")
    assert (ended.code, said in ended.err) == ((1, True) if is_taken else (0, False))


@pytest.mark.parametrize("there", ["folder", "file"])
def test_what_is_there_is_left_as_it_is(lakeward: Command, tmp_path: Path, there: str) -> None:
    place = tmp_path / "mine"
    place.mkdir() if there == "folder" else place.write_text("mine", "utf-8")
    ended = lakeward("plugins", "new", "table", NAME, "--to", str(place))
    assert ended.code == 1
    assert ended.err.startswith(f"error: {place} exists already\n  Nothing was changed.")
    if there == "file":
        below = lakeward("plugins", "new", "table", NAME, "--to", str(place / "project"))
        assert (below.code, "cannot be written" in below.err) == (1, True)
    assert {path.name for path in tmp_path.iterdir()} == {"site", "mine"}
    assert [*place.rglob("*")] == []
    assert lakeward("plugins", "new", "ledger", NAME).code == 2, "it begins no such kind"


def test_names_may_be_given_as_a_distribution() -> None:
    for given in ("my-lake", "lakeward-my-lake"):
        assert Project.named("table", given, Registry(), {}) == Project("table", "my_lake")
