"""The archive of Java's classes: made by a command, used by whatever starts after it."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from lakeward.adapters.spark.session import class_archive
from lakeward.adapters.spark.session.jars import fetch, locked

LAKEWARD = Path(sys.executable).with_name("lakeward")
START = """
import sys
from pathlib import Path
from lakeward.adapters.spark.session.spark_session import Sessions
_, loaded, log = sys.argv
sessions = Sessions(
    {"iceberg", "sqlite"},
    {"spark.master": "local[1]", "spark.driver.extraJavaOptions": f"-Xlog:class+load:file={loaded}"},
    Path(log),
)
sessions()
sessions.stop()
"""


@pytest.mark.spark
@pytest.mark.long
def test_spark_starts_with_the_archive_that_the_command_made(tmp_path: Path) -> None:
    cache = tmp_path / "a cache"
    (cache / "jars").mkdir(parents=True)
    for jar in locked({"iceberg", "sqlite"}):
        shutil.copy2(fetch(jar), cache / "jars")
    environment = {**os.environ, "LAKEWARD_CACHE": str(cache)}
    made = subprocess.run(
        [LAKEWARD, "jars", "fetch", "iceberg", "sqlite"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    (archive,) = cache.glob("classes/*")
    assert made.returncode == 0, made.stderr
    assert archive.name in made.stdout.replace("\n", "")

    loaded = tmp_path / "loaded.log"
    subprocess.run(
        [sys.executable, "-c", START, str(loaded), str(tmp_path / "spark.log")], env=environment, check=True
    )
    assert "org.apache.spark.SparkContext source: shared objects file" in loaded.read_text()


def test_other_jars_and_other_javas_have_other_archives(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LAKEWARD_CACHE", str(tmp_path / "cache"))
    jar = tmp_path / "one.jar"
    jar.write_bytes(b"1")
    archive = class_archive.archive_of(Path("/java"), [jar])
    assert archive == class_archive.archive_of(Path("/java"), [jar])
    assert archive.parent == tmp_path / "cache" / "classes"
    assert archive != class_archive.archive_of(Path("/other/java"), [jar])
    jar.write_bytes(b"12")
    assert archive != class_archive.archive_of(Path("/java"), [jar])


def test_an_archive_is_used_only_once_it_is_whole(tmp_path: Path) -> None:
    archive = tmp_path / "classes" / "some.jsa"
    option = class_archive.make(archive)
    assert class_archive.use(archive) is None
    assert class_archive.keep(archive) is None, "Java wrote none"
    Path(option.strip('"').partition("=")[2]).write_bytes(b"classes")
    assert class_archive.use(archive) is None
    assert class_archive.keep(archive) == archive
    assert class_archive.use(archive) == f'"-XX:SharedArchiveFile={archive}"'


def test_the_oldest_archives_go(tmp_path: Path) -> None:
    folder = tmp_path / "classes"
    for number in range(6):
        archive = folder / f"{number}.jsa"
        Path(class_archive.make(archive).strip('"').partition("=")[2]).write_bytes(b"classes")
        class_archive.keep(archive)
        os.utime(archive, (number, number))
    assert sorted(path.name for path in folder.iterdir()) == ["2.jsa", "3.jsa", "4.jsa", "5.jsa"]
