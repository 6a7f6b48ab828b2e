"""A folder that is replaced whole shows all old files or all new ones, whenever the process is killed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lakeward.core.errors import ConfigError, LockedError
from lakeward.entrypoints.commands.common.folder_replacement import place, replacing

KILLED = """
import json, os, sys
from pathlib import Path
from lakeward.entrypoints.commands.common.folder_replacement import place, replacing

OLD = json.loads(sys.argv[1])

def shown():
    return {file.name: file.read_text() for file in Path("out").iterdir()}

def replace_and_die(steps):
    left, begun = steps, False
    def count(event, arguments):
        nonlocal left
        if event in ("os.mkdir", "os.rename", "os.symlink", "os.remove", "os.rmdir", "open") and begun:
            left -= 1
            if left < 0:
                os._exit(9)
    sys.addaudithook(count)
    begun = True
    with replacing(place("out")) as folder:
        for name in ("a.parquet", "c.parquet"):
            (folder / name).write_text("new")
        (folder / "_SUCCESS").touch()
    begun = False
    os._exit(0)

status, results = 9, []
while status == 9:
    with replacing(place("out")) as folder:
        for name, words in OLD.items():
            (folder / name).write_text(words)
    before = [shown(), len(list(Path(".out.lakeward").iterdir()))]
    child = os.fork()
    if not child:
        replace_and_die(len(results))
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    results.append([before, shown(), status])
print(json.dumps(results))
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


def test_a_kill_at_any_step_leaves_all_old_or_all_new_files_and_the_next_replacement_clears_up(out: Path) -> None:
    """A child process is killed at its first file operation, another at its second, until one ends by itself."""
    command = [sys.executable, "-c", KILLED, json.dumps(OLD)]
    printed = subprocess.run(command, cwd=out.parent, capture_output=True, text=True, check=True).stdout
    befores, afters, statuses = zip(*json.loads(printed), strict=True)
    assert all(before == [OLD, len(["lock", "the folder that is shown"])] for before in befores)
    assert statuses == (*[9] * (len(statuses) - 1), 0)
    assert [files == NEW for files in afters] == sorted(files == NEW for files in afters), "one step shows the new"
    assert {files == OLD for files in afters} == {True, False}
    assert all(files in (OLD, NEW) for files in afters)
    assert len(afters) > 10


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
    assert refused.value.found == f"it is in {out}, which is replaced as a whole"


def test_a_bucket_is_refused_with_the_reason() -> None:
    with pytest.raises(ConfigError) as refused:
        place("s3://lake/out")
    reason = "an object store cannot replace many objects at once: a reader would see old and new files"
    assert refused.value.found == reason


def test_a_place_that_cannot_be_written_is_said(out: Path) -> None:
    (out.parent / "file").touch()
    with pytest.raises(ConfigError, match="cannot be written") as refused, replacing(place("file/out")):
        pass
    said = "The files are written to .out.lakeward, and out is a link to them"
    assert str(refused.value.todo).startswith(said)
