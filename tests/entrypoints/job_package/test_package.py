"""Packages of jobs: for which releases, of which wheels, always the same, and how they reach their place."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import tarfile
import time
import zipfile
from collections.abc import Sequence
from importlib.metadata import Distribution
from pathlib import Path

import pytest
from buckets import Buckets
from commands import Command
from fake_index import make_wheel
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from repository import ROOT, pyproject

from lakeward.core.errors import ConfigError, SetupError
from lakeward.entrypoints import glue, job
from lakeward.entrypoints.commands import package
from lakeward.entrypoints.job_package import assembly, own_wheel, wheels
from lakeward.entrypoints.job_package.assembly import Order
from lakeward.entrypoints.job_package.delivery import replace_folder
from lakeward.entrypoints.job_package.lock import environment_of, pins_of, read_lock
from lakeward.entrypoints.job_package.own_wheel import make_own_wheel
from lakeward.entrypoints.job_package.releases import RELEASES, Release, find_release, newest_release
from lakeward.entrypoints.job_package.wheels import download

of_each_release = pytest.mark.parametrize("release", RELEASES, ids=lambda one: f"{one.platform} {one.name}")


def order(release: Release, kind: str = "iceberg", extras: Sequence[str] = ()) -> Order:
    return Order(release=release, machine="x86_64", kind=kind, extras=extras, settings="s3://shop/lakeward.toml")


# Releases and versions.


def test_the_newest_release_with_the_spark_that_is_installed_is_taken() -> None:
    assert [newest_release("glue", line).name for line in ("3.5", "4.1")] == ["5.1", "6.0"]
    assert [newest_release("emr", line).name for line in ("3.5", "4.1")] == ["emr-7.14.0", "emr-spark-8.1.0"]


@pytest.mark.parametrize(("platform", "name"), [("glue", "4.0"), ("emr", "7.13.0"), ("emr", "5.1"), ("glue", "")])
def test_a_release_that_is_not_known_is_refused_with_those_that_are(platform: str, name: str) -> None:
    with pytest.raises(ConfigError, match=r"(?s)lakeward does not know the release .*the releases are .*--release"):
        find_release(platform, name)


def lock_and_need(release: Release, kind: str) -> tuple[set[str], set[str]]:
    """Return what lakeward declares for a release, and what of it its lock lacks or has in another version."""
    project, asked = pyproject()["project"], order(release, kind, assembly.EXTRAS)
    extras = [need for extra in asked.all_extras for need in project["optional-dependencies"][extra]]
    needs = [Requirement(need) for need in [*project["dependencies"], *extras]]
    pins, provided = read_lock(release, "x86_64"), asked.target.provided
    missing = set()
    for need in needs:
        pin = pins.get(canonicalize_name(need.name))
        if need.name not in provided and (pin is None or not need.specifier.contains(pin.version)):
            missing.add(str(need))
    return {need.name for need in needs}, missing


@of_each_release
def test_the_lock_of_a_release_has_all_that_lakeward_declares(release: Release) -> None:
    for kind in ("iceberg", "delta", *(["hudi"] if release.line == "3.5" else [])):
        declared, missing = lock_and_need(release, kind)
        assert {"pyiceberg", "boto3", "confluent-kafka"} < declared
        assert missing == set()


@of_each_release
def test_the_versions_are_those_that_are_tested(release: Release) -> None:
    file = "dev.txt" if release.line == "4.1" else "dev-3.5.txt"
    environment = environment_of(release, "x86_64")
    tested = pins_of((ROOT / "requirements" / file).read_text("utf-8"), environment)
    pins = read_lock(release, "x86_64")
    untested = {"aws-msk-iam-sasl-signer-python"} if release.line == "3.5" else set()
    assert set(pins) - set(tested) == untested
    assert {n for n in set(pins) & set(tested) if pins[n].version != tested[n].version} == set()


# What is packaged.


@pytest.mark.usefixtures("index")
def test_a_package_has_what_lakeward_needs_and_the_platform_lacks(lakeward: Command, tmp_path: Path) -> None:
    """Extras and markers are those of the platform, not those of the Python that packages."""
    ended = lakeward("package", "glue", "--to", "job", "--release", "5.1", "--json")
    assert ended.code == 0
    made = {path.name for path in (tmp_path / "job/wheels").iterdir()}
    assert {name.partition("-")[0] for name in made} == {"lakeward", "pyiceberg", "pydantic", "six", "tomli"}
    lakeward("package", "glue", "--to", "job", "--release", "6.0", "--format", "delta")
    made = {path.name.partition("-")[0] for path in (tmp_path / "job/wheels").iterdir()}
    assert made == {"lakeward", "pyiceberg", "pydantic", "six", "deltalake"}
    lakeward("package", "glue", "--to", "job", "--release", "6.0", "--with-boto3")
    made = {path.name.partition("-")[0] for path in (tmp_path / "job/wheels").iterdir()}
    assert made == {"lakeward", "pyiceberg", "pydantic", "six", "boto3", "botocore"}


@pytest.mark.usefixtures("index")
def test_a_package_lists_its_files_and_how_the_job_is_started(lakeward: Command, tmp_path: Path) -> None:
    place, settings = "s3://BUCKET/PREFIX", "s3://shop/lakeward.toml"
    made = lakeward("package", "glue", "--to", "job", "--release", "5.1", "--settings", settings, "--json").document
    manifest = json.loads((tmp_path / "job/job.json").read_text("utf-8"))
    said = {"schema_version": 1, "command": "package glue", "sent": None, "exit_code": 0}
    assert made == {**said, "to": str(tmp_path / "job"), **manifest}
    files = {p.relative_to(tmp_path / "job").as_posix(): p for p in (tmp_path / "job").rglob("*") if p.is_file()}
    hashes = {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}
    assert manifest["files"] == {name: digest for name, digest in hashes.items() if name != "job.json"}
    names = [name.removeprefix("wheels/") for name in sorted(files) if name.endswith(".whl")]
    lines = (tmp_path / "job/requirements.txt").read_text("utf-8").splitlines()
    pinned = [f"{n.split('-')[0]}=={n.split('-')[1]} --hash=sha256:{hashes[f'wheels/{n}']}" for n in names]
    assert lines == pinned
    start = manifest["jobs"]["create-job"]
    assert (start["GlueVersion"], start["Command"]["ScriptLocation"]) == ("5.1", f"{place}/lakeward_job.py")
    arguments = start["DefaultArguments"]
    assert arguments["--additional-python-modules"] == ",".join(f"{place}/wheels/{name}" for name in names)
    request = job.read_arguments([word for pair in arguments.items() for word in pair], glue.RESERVED)
    assert (request.settings, request.formats) == (settings, {"iceberg"})


@pytest.mark.usefixtures("index")
def test_a_package_of_emr_has_an_environment_for_its_python(lakeward: Command, tmp_path: Path) -> None:
    ended = lakeward("package", "emr", "--to", "job", "--release", "7.14.0", "--arch", "aarch64", "--json")
    with tarfile.open(tmp_path / "job/environment.tar.gz") as archive:
        names, links = archive.getnames(), {one.name: one.linkname for one in archive if one.issym()}
        config = archive.extractfile("pyvenv.cfg")
        assert config is not None
        assert config.read() == b"home = /usr/bin\ninclude-system-site-packages = false\n"
    assert links == {"bin/python": "/usr/bin/python3.11", "bin/python3": "python"}
    site = "lib/python3.11/site-packages"
    assert {f"{site}/lakeward/__init__.py", f"{site}/boto3/__init__.py", f"{site}/six_more.py"} < set(names)
    assert "share/six.txt" in names
    assert not [name for name in names if ".data" in name or "scripts" in name]
    jobs = ended.document["jobs"]
    submit = jobs["start-job-run"]["sparkSubmit"]
    assert job.read_arguments(submit["entryPointArguments"]).settings == "s3://BUCKET/lakeward.toml"
    archive_option = "spark.archives=s3://BUCKET/PREFIX/environment.tar.gz#environment"
    assert archive_option in submit["sparkSubmitParameters"].split()
    assert archive_option in jobs["add-steps"]["Args"]
    started = ["s3://BUCKET/PREFIX/lakeward_job.py", "--settings", "s3://BUCKET/lakeward.toml"]
    assert jobs["add-steps"]["Args"][-3:] == started


@pytest.mark.usefixtures("index")
@pytest.mark.parametrize("platform", ["glue", "emr"])
def test_the_same_is_packaged_into_the_same_bytes(
    platform: str, lakeward: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the time nor what files may be read by is in them."""
    found = []
    for folder, mask, now in (("a", 0o022, 1e9), ("b", 0o077, 1.5e9)):
        before = os.umask(mask)
        monkeypatch.setattr(time, "time", lambda now=now: now)
        try:
            assert lakeward("package", platform, "--to", folder).code == 0
        finally:
            os.umask(before)
        found.append({p.name: p.read_bytes() for p in (tmp_path / folder).rglob("*") if p.is_file()})
    assert found[0] == found[1]


def test_a_checkout_and_its_installation_give_the_same_wheel(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site, built, packed = (tmp_path / name for name in ("site", "built", "packed"))
    for folder in (site, built, packed):
        folder.mkdir()
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)  # noqa: S202  # a wheel that was built here
        names = sorted(archive.namelist())
    (info,) = site.glob("*.dist-info")
    as_pip_installs(site, info)
    monkeypatch.setattr(own_wheel, "distribution", lambda name: Distribution.at(info))
    first = make_own_wheel(built)
    monkeypatch.setattr(own_wheel, "checkout", lambda: None)
    assert make_own_wheel(packed).read_bytes() == first.read_bytes()
    with zipfile.ZipFile(first) as archive:
        assert sorted(archive.namelist()) == names


def as_pip_installs(site: Path, info: Path) -> None:
    """Add the files that pip adds to those of a wheel: a script, compiled modules, and its own records."""
    added = [f"{info.name}/{name}" for name in ("INSTALLER", "REQUESTED", "direct_url.json")]
    added += ["lakeward/__pycache__/__init__.cpython-311.pyc", "../bin/lakeward"]
    for name in added:
        (site / name).parent.mkdir(exist_ok=True)
        (site / name).touch()
    with (info / "RECORD").open("a", encoding="utf-8") as record:
        record.writelines(f"{name},,\n" for name in added)


def test_a_checkout_is_found_by_its_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert own_wheel.checkout() == ROOT
    monkeypatch.setattr(own_wheel.lakeward.adapters, "__file__", str(tmp_path / "lakeward/adapters/__init__.py"))
    assert own_wheel.checkout() is None


# Wheels of one's own.


@pytest.mark.usefixtures("index")
def test_a_plugin_brings_what_it_needs_and_a_wheel_replaces_a_locked_version(
    lakeward: Command, tmp_path: Path
) -> None:
    plugin = make_wheel(tmp_path, "my_plugin", ["helper", "six>=2"])
    helper, newer = make_wheel(tmp_path, "helper"), make_wheel(tmp_path, "six", version="2.1")
    base = ("package", "glue", "--to", "job", "--wheel", str(plugin))
    assert "my-plugin needs helper, of which lakeward's lock has no version" in lakeward(*base).err
    more = ("--wheel", str(helper))
    assert "my-plugin 1.0 does not go with six 1.0" in lakeward(*base, *more).err
    assert lakeward(*base, *more, "--wheel", str(newer)).code == 0
    made = {path.name for path in (tmp_path / "job/wheels").iterdir()}
    assert {"lakeward-1.0-py3-none-any.whl", plugin.name, helper.name, newer.name} < made
    assert "six-1.0-py3-none-any.whl" not in made
    own = make_wheel(tmp_path, "lakeward", ["six"], "9.0")
    assert lakeward("package", "glue", "--to", "job", "--wheel", str(own)).code == 0
    assert {path.name for path in (tmp_path / "job/wheels").iterdir()} == {own.name, "six-1.0-py3-none-any.whl"}
    odd = make_wheel(tmp_path, "odd", ["=="])
    assert f"{odd} is no wheel" in lakeward(*base, "--wheel", str(odd)).err
    assert "two wheels of six are given" in lakeward(*base, "--wheel", str(newer), "--wheel", str(newer)).err


@pytest.mark.usefixtures("index")
@pytest.mark.parametrize(
    "tag", ["cp311-macosx_11_0_arm64", "cp310-manylinux2014_x86_64", "cp311-manylinux_2_39_x86_64"]
)
def test_a_wheel_that_does_not_run_there_is_refused(tag: str, lakeward: Command, tmp_path: Path) -> None:
    wheel = make_wheel(tmp_path, "own", tag=f"{tag[:5]}-{tag}")
    ended = lakeward("package", "glue", "--to", "job", "--release", "5.1", "--wheel", str(wheel))
    assert (ended.code, "does not run on AWS Glue 5.1 on x86_64" in ended.err) == (1, True)
    assert not (tmp_path / "job").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["emr", "--wheel", "none-1.0-py3-none-any.whl"], "none-1.0-py3-none-any.whl is no wheel"),
        (["glue", "--release", "6.0", "--format", "hudi"], "only on Spark 3.5, and AWS Glue 6.0 has Spark 4.1"),
        (["glue", "--extra", "hive"], "lakeward has no extra 'hive' for packages"),
        (["glue", "--to", "gs://jobs"], "gs://jobs is neither a folder nor in S3"),
        (["glue", "--to", " "], "--to is empty"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_fetched(
    arguments: list[str], said: str, lakeward: Command, tmp_path: Path
) -> None:
    ended = lakeward("package", *arguments[:1], "--to", "job", *arguments[1:])
    assert (ended.code, said in ended.err) == (1, True)
    assert [path.name for path in tmp_path.iterdir()] == ["site"]


# The index.


def answer(monkeypatch: pytest.MonkeyPatch, said: str) -> None:
    ended = subprocess.CompletedProcess([], 1, "", said)
    monkeypatch.setattr(wheels, "run_pip", lambda arguments: ended)


RETRYING = "WARNING: Retrying (Retry(total=1)) after connection broken by 'NewConnectionError': /simple/six/\n"
NONE = "ERROR: No matching distribution found for six==1.17.0\n"
OTHER = "ERROR: THESE PACKAGES DO NOT MATCH THE HASHES FROM THE REQUIREMENTS FILE.\n    six==1.17.0:\n Got ab\n"


@pytest.mark.parametrize(
    ("said", "kind", "words"),
    [
        (NONE, ConfigError, "the index has no wheel of six==1.17.0 for AWS Glue 5.1 on x86_64"),
        (RETRYING + NONE, SetupError, "the index of Python packages cannot be reached"),
        (OTHER, ConfigError, "is not the one that lakeward was tested with"),
        ("ERROR: Invalid --python-version\n", SetupError, "(?s)could not fetch.*Invalid --python-version"),
        ("", SetupError, "pip printed nothing"),
    ],
)
def test_what_keeps_pip_from_fetching_is_said(
    said: str, kind: type[Exception], words: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    answer(monkeypatch, said)
    release = find_release("glue", "5.1")
    with pytest.raises(kind, match=words):
        download([read_lock(release, "x86_64")["six"]], order(release).target, tmp_path)


def test_without_pip_nothing_is_fetched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wheels, "find_spec", lambda name: None)
    with pytest.raises(SetupError, match="pip is not installed beside lakeward"):
        wheels.run_pip(["download"])


# The place.


@pytest.mark.usefixtures("index")
def test_a_folder_holds_the_package_alone(
    lakeward: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A later package takes the place of the whole earlier one; what somebody put there is never removed."""
    wheel, command = make_wheel(tmp_path, "own"), ("package", "emr", "--to", "job")
    assert lakeward(*command, "--wheel", str(wheel)).code == 0
    assert lakeward(*command).code == 0
    assert not (tmp_path / "job/wheels" / wheel.name).exists()
    before = (tmp_path / "job/job.json").read_bytes()
    (tmp_path / "job/lakeward.toml").touch()
    ended = lakeward(*command)
    assert re.search(r"(?s)files that are of no package.*lakeward\.toml", ended.err)
    (tmp_path / "job/lakeward.toml").unlink()
    answer(monkeypatch, NONE)
    monkeypatch.setattr(wheels, "download", download)
    assert lakeward(*command, "--format", "delta").code == 1
    assert (tmp_path / "job/job.json").read_bytes() == before
    assert {path.name for path in tmp_path.iterdir()} == {"job", "site", wheel.name}


def test_a_list_of_files_that_is_no_packages_is_a_file_of_somebody(tmp_path: Path) -> None:
    (tmp_path / "job.json").write_text('{"my": "own"}', "utf-8")
    with pytest.raises(ConfigError, match=r"files that are of no package"):
        replace_folder(tmp_path, lambda fresh: {})
    with pytest.raises(ConfigError, match="/ cannot be a package"):
        replace_folder(Path("/"), lambda fresh: {})


def test_what_fails_as_a_package_is_made_is_no_fault_of_its_folder(tmp_path: Path) -> None:
    def fail(_fresh: Path) -> dict[str, str]:
        raise FileNotFoundError("pip is gone")

    with pytest.raises(FileNotFoundError, match="pip is gone"):
        replace_folder(tmp_path / "job", fail)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_whose_place_cannot_be_taken_is_as_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job = tmp_path / "job"
    replace_folder(job, lambda fresh: (fresh / "job.json").write_text('{"files": {"a": ""}}', "utf-8") and {})
    rename = Path.rename

    def renamed(path: Path, target: Path) -> Path:
        if path.name.endswith(".new"):
            raise OSError("no space left")
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", renamed)
    with pytest.raises(ConfigError, match="cannot be written"):
        replace_folder(job, lambda fresh: {})
    assert [path.name for path in tmp_path.iterdir()] == ["job"]
    assert (job / "job.json").exists()


@pytest.mark.usefixtures("index")
def test_a_bucket_gets_what_it_does_not_have(lakeward: Command, s3: Buckets, tmp_path: Path) -> None:
    bucket = s3.make()
    command = ("package", "glue", "--release", "5.1", "--to", f"s3://{bucket}/jobs/", "--json")
    made = lakeward(*command).document
    assert (made["to"], set(made["sent"])) == (f"s3://{bucket}/jobs", {*made["files"], "job.json"})
    assert set(s3.keys(bucket)) == {f"jobs/{name}" for name in [*made["files"], "job.json"]}
    modules = made["jobs"]["create-job"]["DefaultArguments"]["--additional-python-modules"].split(",")
    assert {url.removeprefix(f"s3://{bucket}/") for url in modules} < set(s3.keys(bucket))
    assert lakeward(*command).document["sent"] == ["job.json"]
    s3.put(f"s3://{bucket}/jobs/lakeward_job.py", "other")
    s3.put(f"s3://{bucket}/jobs/notes.txt", "mine")
    assert lakeward(*command).document["sent"] == ["lakeward_job.py", "job.json"]
    script = s3.client.get_object(Bucket=bucket, Key="jobs/lakeward_job.py")["Body"].read()
    assert hashlib.sha256(script).hexdigest() == made["files"]["lakeward_job.py"]
    assert "jobs/notes.txt" in s3.keys(bucket)


@pytest.mark.usefixtures("index")
def test_a_bucket_that_cannot_be_written_is_said_before_anything_is_made(
    lakeward: Command, s3: Buckets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(package, "build", None)
    ended = lakeward("package", "glue", "--to", "s3://no-such-bucket/jobs")
    assert (ended.code, "the bucket no-such-bucket does not exist" in ended.err) == (1, True)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    ended = lakeward("package", "glue", "--to", f"s3://{s3.make()}/jobs")
    assert (ended.code, "there are no credentials" in ended.err) == (1, True)
