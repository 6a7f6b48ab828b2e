"""A folder that is replaced whole shows all old files or all new ones, whenever the process is killed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lakeward.core.errors import ConfigError, LockedError
from lakeward.entrypoints.commands.common.folder_replacement import place, replacing

KILLED = """
import os, sys
from lakeward.entrypoints.commands.common.folder_replacement import place, replacing
left = int(sys.argv[1])
def count(event, arguments):
    global left
    if event in ("os.mkdir", "os.rename", "os.symlink", "os.remove", "os.rmdir", "open") and begun:
        left -= 1
        if left < 0:
            os._exit(9)
begun = False
sys.addaudithook(count)
begun = True
with replacing(place("out")) as folder:
    for name in ("a.parquet", "c.parquet"):
        (folder / name).write_text("new")
    (folder / "_SUCCESS").touch()
begun = False
"""
OLD, NEW = {"a.parquet": "old", "b.parquet": "old"}, {"a.parquet": "new", "c.parquet": "new"}


def write(folder: Path, files: dict[str, str]) -> None:
    for name, words in files.items():
        (folder / name).write_text(words, "utf-8")


def shown(path: Path) -> dict[str, str]:
    return {file.name: file.read_text("utf-8") for file in path.iterdir()}


@pytest.fixture
def out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "out"


def folders(out: Path) -> list[Path]:
    return [one for one in (out.parent / ".out.lakeward").iterdir() if one.name != "lock"]


def test_it_is_made_and_replaced_and_nothing_else_is_left(out: Path) -> None:
    for files in (OLD, NEW, OLD):
        with replacing(place("out")) as folder:
            write(folder, files | {"_SUCCESS": "", ".a.parquet.crc": ""})
        assert shown(out) == files
        assert len(folders(out)) == 1


def test_whenever_the_process_is_killed_all_of_one_is_there_and_the_next_clears_up(out: Path) -> None:
    seen: list[dict[str, str]] = []
    while True:
        with replacing(place("out")) as folder:
            write(folder, OLD)
        assert (shown(out), len(folders(out))) == (OLD, 1)
        command = [sys.executable, "-c", KILLED, str(len(seen))]
        ended = subprocess.run(command, cwd=out.parent, capture_output=True, text=True, check=False)
        seen.append(shown(out))
        if ended.returncode != 9:
            break
    assert (ended.returncode, ended.stderr) == (0, "")
    assert [files == NEW for files in seen] == sorted(files == NEW for files in seen), "one step shows what is new"
    assert {files == OLD for files in seen} == {True, False}
    assert all(files in (OLD, NEW) for files in seen)
    assert len(seen) > 10


def test_what_fails_on_the_way_leaves_what_was_there(out: Path) -> None:
    with replacing(place("out")) as folder:
        write(folder, OLD)
    with pytest.raises(ConfigError, match="cannot be written"), replacing(place("out")) as folder:
        (folder / "no" / "a.parquet").touch()
    assert (shown(out), len(folders(out))) == (OLD, 1)


def test_a_folder_may_move_with_what_it_shows(out: Path) -> None:
    with replacing(place("out")) as folder:
        write(folder, OLD)
    moved = out.parent.rename(out.parent.with_name("moved"))
    assert shown(moved / "out") == OLD


def test_two_at_once_are_refused(out: Path) -> None:
    refused = pytest.raises(LockedError, match="another process writes to")
    with replacing(place("out")), refused, replacing(place("out")):
        pass


def made(out: Path, kind: str) -> None:
    match kind:
        case "folder":
            out.mkdir()
        case "file":
            out.touch()
        case _:
            out.symlink_to(out.parent)


@pytest.mark.parametrize("kind", ["folder", "file", "link"])
def test_what_was_not_written_so_is_left_alone(out: Path, kind: str) -> None:
    made(out, kind)
    with pytest.raises(ConfigError, match="cannot be replaced"):
        place("out")


def test_a_folder_within_one_that_is_replaced_whole_is_refused(out: Path) -> None:
    """The next that takes the place of the outer one would remove it."""
    with replacing(place("out")) as folder:
        write(folder, OLD)
    with pytest.raises(ConfigError) as refused:
        place("out/inner/more")
    assert refused.value.found == f"it is in {out}, which is replaced itself"


def test_a_bucket_is_refused_with_the_reason() -> None:
    with pytest.raises(ConfigError) as refused:
        place("s3://lake/out")
    assert (
        refused.value.found
        == "a store has no step that replaces many objects at once: a reader would see some of both"
    )


def test_a_place_that_cannot_be_written_is_said(out: Path) -> None:
    (out.parent / "file").touch()
    with pytest.raises(ConfigError, match="cannot be written") as refused, replacing(place("file/out")):
        pass
    assert refused.value.todo is not None
    assert refused.value.todo.startswith(
        "The files are written to .out.lakeward, and out is a link to them"
    )
