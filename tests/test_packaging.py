"""The installed package is what is in the repository, and all its dependencies are declared."""

from __future__ import annotations

import re
import subprocess
import sys
import zipfile
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest
from repository import ROOT, imported, modules, pyproject

import lakeward
from lakeward.adapters.spark.session.compatibility import LINES


def packaged(module: Path) -> str:
    """Return the path in the wheel of a file of the repository."""
    return "lakeward/" + str(module).removeprefix("core/_root/")


def normalized(distribution: str) -> str:
    return re.sub(r"[-_.]+", "-", distribution).lower()


def test_every_folder_with_modules_is_a_listed_package() -> None:
    listed = pyproject()["tool"]["setuptools"]["packages"]
    folders = {str(path.parent) for path in modules()} - {"core/_root"}
    assert sorted(listed) == sorted(["lakeward", *["lakeward." + folder.replace("/", ".") for folder in folders]])
    assert [path for path in modules() if not (ROOT / path).with_name("__init__.py").exists()] == []


def test_the_links_for_tools_name_the_same_folders_as_the_packaging() -> None:
    mapped = pyproject()["tool"]["setuptools"]["package-dir"]
    links = {link.name: link.resolve() for link in (ROOT / ".dev" / "lakeward").iterdir() if link.is_dir()}
    assert links == {name.split(".")[1]: ROOT / folder for name, folder in mapped.items() if "." in name}


def test_every_package_that_is_imported_is_declared() -> None:
    project = pyproject()["project"]
    extras = [need for extra in project["optional-dependencies"].values() for need in extra]
    names = {normalized(re.split(r"[\[<>=~!; ]", need)[0]) for need in [*project["dependencies"], *extras]}
    used = {name for module in modules() for name in imported(module)} - sys.stdlib_module_names - {"lakeward"}
    provided = packages_distributions()
    by_spark = {"py4j"}  # pyspark pins it exactly
    missing = {name for name in used - by_spark if not names & {normalized(d) for d in provided.get(name, [name])}}
    assert not missing


def test_the_wheel_has_every_module_and_nothing_else_at_its_top(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name for name in names if name.endswith(".py")} == {packaged(module) for module in modules()}
    assert {name.split("/")[0] for name in names} == {"lakeward", f"lakeward-{lakeward.__version__}.dist-info"}


def test_the_wheel_has_the_types_marker_and_the_locks(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert "lakeward/py.typed" in names
    locks = {f"lakeward/adapters/spark/session/jars-{line}.toml" for line in LINES}
    assert {name for name in names if name.endswith(".toml")} == locks
    of_jobs = {f"lakeward/entrypoints/job_package/lock-{line}.txt" for line in LINES}
    assert {name for name in names if name.startswith("lakeward/") and name.endswith(".txt")} == of_jobs


@pytest.mark.parametrize("folder", ["entrypoints/plugin_project/templates", "plugins/testing/corpus"])
def test_the_wheel_has_the_templates_of_plugins_and_the_whole_corpus(wheel: Path, folder: str) -> None:
    ours = {packaged(path.relative_to(ROOT)) for path in (ROOT / folder).rglob("*") if path.is_file()}
    names = {name for name in zipfile.ZipFile(wheel).namelist() if f"/{Path(folder).name}/" in name}
    assert {name for name in names if not name.endswith("/")} == ours != set()


def test_the_wheel_says_its_version_its_needs_and_its_command(wheel: Path) -> None:
    archive = zipfile.ZipFile(wheel)
    info = f"lakeward-{lakeward.__version__}.dist-info"
    metadata = archive.read(f"{info}/METADATA").decode()
    assert f"\nVersion: {lakeward.__version__}\n" in metadata
    assert re.search(r"^Requires-Dist: pyspark.* extra == .spark.$", metadata, re.MULTILINE)
    assert not re.search(r"^Requires-Dist: pyspark[^;]*$", metadata, re.MULTILINE)
    assert "lakeward = lakeward.entrypoints.cli:main" in archive.read(f"{info}/entry_points.txt").decode()


def test_the_wheel_works_as_a_zip_on_the_path(wheel: Path) -> None:
    code = (
        f"import sys; sys.path.insert(0, {str(wheel)!r})\n"
        "import lakeward; from lakeward.adapters.spark.session.jars import locked\n"
        "from lakeward.plugins.testing import corpus\n"
        "rows = sum(len(one.rows) for case in corpus() for one in case.deliveries)\n"
        "print(lakeward.__file__.startswith(sys.path[0]), len(locked()) > 0, rows > 0)"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["True"] * 3


def test_the_locks_pin_every_dependency_with_hashes() -> None:
    locks = [ROOT / "requirements" / file for file in ("build.txt", "docs.txt", "dev.txt", "dev-3.5.txt")]
    for file in [*(ROOT / "entrypoints/job_package").glob("lock-*.txt"), *locks]:
        text = file.read_text("utf-8")
        entries = re.split(r"\n(?=\w)", re.sub(r"^#.*\n", "", text, flags=re.MULTILINE).strip())
        assert [e for e in entries if not re.match(r"[\w.-]+==\S+", e) or "--hash=sha256:" not in e] == []
    groups = pyproject()["dependency-groups"]
    wanted = [*pyproject()["project"]["dependencies"], *pyproject()["project"]["optional-dependencies"]["spark"]]
    locked = {normalized(name) for name in re.findall(r"^([\w.-]+)==", text, re.MULTILINE)}
    assert {normalized(re.split(r"[\[<>=]", need)[0]) for need in [*wanted, *groups["dev"]]} <= locked
