"""A Java that Spark runs on, or an error that says which is needed and how to get it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lakeward.adapters.spark.session.java import check_java
from lakeward.core.errors import SetupError

SHELL = shutil.which("sh")


def java(folder: Path, *lines: str, mode: int = 0o755) -> Path:
    """Make a `java` that says this on standard error, as the real one does."""
    script = folder / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    script.write_text(f"#!{SHELL}\n" + "".join(f"echo '{line}' >&2\n" for line in lines), "utf-8")
    script.chmod(mode)
    return script


def on_path(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(folder / "bin"))


def refusal() -> SetupError:
    with pytest.raises(SetupError, match="lakeward needs Java 17 or 21 to run Spark") as refused:
        check_java()
    assert "apt install openjdk-17-jre-headless" in str(refused.value.todo)
    assert "set JAVA_HOME" in str(refused.value.todo)
    return refused.value


@pytest.mark.parametrize("version", ["17.0.15", "21", "21.0.2", "17-ea"])
def test_a_tested_java_is_accepted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str) -> None:
    made = java(tmp_path, f'openjdk version "{version}" 2025-04-15')
    on_path(monkeypatch, tmp_path)
    assert check_java() == made


@pytest.mark.parametrize(
    ("version", "shown"), [("1.8.0_392", "Java 8"), ("11.0.21", "Java 11"), ("24.0.1", "Java 24")]
)
def test_another_java_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, version: str, shown: str) -> None:
    made = java(tmp_path, f'openjdk version "{version}" 2025-04-15')
    on_path(monkeypatch, tmp_path)
    assert refusal().found == f"found {shown} at {made}"


def test_no_java_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    on_path(monkeypatch, tmp_path)
    assert refusal().found == "found no `java` on the PATH, and JAVA_HOME is not set"


@pytest.mark.parametrize("mode", [0o755, 0o644], ids=["says something else", "cannot be run"])
def test_a_java_without_a_version_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mode: int) -> None:
    made = java(tmp_path, "Unable to locate a Java Runtime.", mode=mode)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert refusal().found == f"found Java of an unknown version at {made}"


def test_java_home_goes_before_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java(tmp_path / "path", 'openjdk version "11.0.21"')
    on_path(monkeypatch, tmp_path / "path")
    made = java(tmp_path / "home", 'openjdk version "17.0.15"')
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert check_java() == made


def test_a_java_home_without_java_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    java(tmp_path, 'openjdk version "17.0.15"')
    on_path(monkeypatch, tmp_path)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    assert refusal().found == f"JAVA_HOME is {tmp_path / 'gone'}, and there is no bin/java in it"


def test_the_release_file_of_a_java_is_read(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    made = java(tmp_path, "this must not be asked")
    (tmp_path / "release").write_text('IMPLEMENTOR="Debian"\nJAVA_VERSION="21.0.2"\n', "utf-8")
    on_path(monkeypatch, tmp_path)
    assert check_java() == made
    (tmp_path / "release").write_text('JAVA_VERSION="1.8.0_392"\n', "utf-8")
    assert str(refusal().found).startswith("found Java 8 at ")
