"""A disk and a bucket are alike: what is listed, read and moved, whatever files are called."""

from __future__ import annotations

import io
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

import pytest
from buckets import Buckets
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tries import tries

from lakeward.adapters.sources.landing.bucket_store import BucketStore
from lakeward.adapters.sources.landing.local_store import LocalStore
from lakeward.core.ports import Store, Stored

NUMBERS = count(1)

PARTS = st.one_of(
    st.text("aB0é漢 +%=&-_.~", min_size=1, max_size=5).filter(lambda part: part not in (".", "..")),
    st.sampled_from(["20261121-100000000.csv", "LOAD00000001.csv", "2026", "11", "_tmp", ".part"]),
)
NAMES = st.lists(PARTS, min_size=1, max_size=3).map("/".join)


def fits_a_disk(names: Sequence[str]) -> bool:
    """Whether no name is that of a folder of another one."""
    return not any(other.startswith(f"{name}/") for name in names for other in names)


TREES = st.dictionaries(NAMES, st.binary(max_size=40), min_size=1, max_size=8).filter(
    lambda tree: fits_a_disk([*tree])
)


@dataclass(frozen=True)
class Side:
    """A store with a folder of its own, and how a file gets there."""

    store: Store
    root: str
    put: Callable[[str, bytes], None]

    def listed(self, start: str | None) -> list[tuple[str, int | None]]:
        """Return what is listed, less what may be left out."""
        found = self.store.list(self.root, start)
        return sorted((item.name, item.size) for item in found if start is None or item.name >= start)

    def sizes(self, names: Sequence[str]) -> list[int | None]:
        found = [self.store.stat(f"{self.root}/{name}") for name in names]
        return [None if item is None else item.size for item in found]

    def read(self, name: str, first: int, length: int) -> tuple[bytes, bytes]:
        with self.store.open(f"{self.root}/{name}") as file:
            file.seek(first)
            return file.read(length), file.read()

    def folders(self, names: Sequence[str]) -> list[list[str]]:
        within = {"/".join(name.split("/")[:depth]) for name in names for depth in range(name.count("/") + 1)}
        return [sorted(self.store.folders(f"{self.root}/{at}".rstrip("/"))) for at in sorted(within)]

    def has(self, folders: Sequence[str]) -> list[bool]:
        return [self.store.resolve(f"{self.root}/{folder}") is not None for folder in folders]


def sides(client: Any, folder: str, bucket: str, make: Callable[[Any], Store]) -> tuple[Side, Side]:
    root = f"landing {next(NUMBERS)}"

    def on_disk(name: str, content: bytes) -> None:
        path = Path(folder) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)

    def in_bucket(name: str, content: bytes) -> None:
        client.put_object(Bucket=bucket, Key=f"{root}/{name}", Body=content)

    return Side(LocalStore(), folder, on_disk), Side(make(client), f"s3://{bucket}/{root}", in_bucket)


def check_alike(disk: Side, bucket: Side, tree: Mapping[str, bytes], start: str, moved: str, target: str) -> None:
    both, names = (disk, bucket), [*tree]
    for side in both:
        for name, content in tree.items():
            side.put(name, content)
    assert disk.listed(None) == bucket.listed(None)
    assert disk.listed(start) == bucket.listed(start)
    assert disk.folders(names) == bucket.folders(names)
    above = [name.rpartition("/")[0] for name in names if "/" in name]
    assert disk.has([*above, "nowhere"]) == bucket.has([*above, "nowhere"])
    assert disk.sizes([*names, "nowhere"]) == bucket.sizes([*names, "nowhere"])
    for name, content in tree.items():
        middle = len(content) // 2
        assert (
            disk.read(name, 1, middle)
            == bucket.read(name, 1, middle)
            == (content[1:][:middle], content[1:][middle:])
        )
    for side in both:
        side.store.move(f"{side.root}/{moved}", f"{side.root}/{target}")
    assert disk.listed(None) == bucket.listed(None)
    everywhere = [*names, target, f"{target}.2"]
    assert disk.sizes(everywhere) == bucket.sizes(everywhere)
    for name, size in zip(everywhere, disk.sizes(everywhere), strict=True):
        if size is not None:
            assert disk.read(name, 0, 100) == bucket.read(name, 0, 100)


@st.composite
def cases(draw: st.DrawFn) -> tuple[dict[str, bytes], str, str, str]:
    """Return a tree, a start, a file of it to move, and where it goes: mostly a file that is there, or near it."""
    tree = draw(TREES)
    name = st.sampled_from([*tree])
    start = draw(st.one_of(name, name.map(lambda it: it[: max(1, len(it) // 2)]), PARTS))
    target = draw(st.one_of(name, NAMES).filter(lambda it: fits_a_disk([*tree, it, f"{it}.2"])))
    return tree, start, draw(name), target


@pytest.fixture(scope="module")
def bucket_of_laws(s3_server: Buckets) -> str:
    return s3_server.make()


@settings(max_examples=tries(10, 60), suppress_health_check=[HealthCheck.function_scoped_fixture])
@example(case=({"a": b"1", "b": b"1"}, "a", "a", "b"))  # a crash came between copying and deleting
@example(case=({"a": b"1", "b": b"2", "b.2": b"3"}, "a", "a", "b"))
@given(case=cases())
def test_a_disk_is_as_a_bucket(
    s3: Buckets, bucket_of_laws: str, case: tuple[dict[str, bytes], str, str, str]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        check_alike(*sides(s3.client, folder, bucket_of_laws, BucketStore), *case)


# The law can fail.


class LeavesOutTheStart(BucketStore):
    """Hands the start on as it is: S3 lists what sorts behind it."""

    def list(self, folder: str, start: str | None) -> Iterator[Stored]:
        return (item for item in super().list(folder, start) if item.name != start)


class ListsWhatIsHidden(BucketStore):
    def list(self, folder: str, start: str | None) -> Iterator[Stored]:
        bucket, _, prefix = folder.removeprefix("s3://").partition("/")
        for item in self.client.list_objects_v2(Bucket=bucket, Prefix=f"{prefix}/")["Contents"]:
            yield Stored(item["Key"].removeprefix(f"{prefix}/"), item["Size"], 0)


class TakesPrefixesForFolders(BucketStore):
    def resolve(self, folder: str) -> str | None:
        bucket, _, prefix = folder.removeprefix("s3://").partition("/")
        return folder if "Contents" in self.client.list_objects_v2(Bucket=bucket, Prefix=prefix) else None


class Unmoved(io.BufferedReader):
    def seek(self, _offset: int, _whence: int = 0) -> int:
        return 0


class ReadsFromTheBeginning(BucketStore):
    def open(self, path: str) -> BinaryIO:
        return Unmoved(super().open(path))  # type: ignore[arg-type]


class CopiesAlone(BucketStore):
    def move(self, path: str, target: str) -> None:
        bucket, _, key = path.removeprefix("s3://").partition("/")
        _, _, place = target.removeprefix("s3://").partition("/")
        self.client.copy({"Bucket": bucket, "Key": key}, bucket, place)


class Overwrites(CopiesAlone):
    def move(self, path: str, target: str) -> None:
        super().move(path, target)
        bucket, _, key = path.removeprefix("s3://").partition("/")
        self.client.delete_object(Bucket=bucket, Key=key)


TREE = {"a/x": b"one", "b": b"three", "nowhere else": b"2", "_tmp/x": b""}


@pytest.mark.parametrize(
    "broken",
    [LeavesOutTheStart, ListsWhatIsHidden, TakesPrefixesForFolders, ReadsFromTheBeginning, Overwrites, CopiesAlone],
)
def test_the_law_can_fail(s3: Buckets, bucket_of_laws: str, tmp_path: Path, broken: Callable[[Any], Store]) -> None:
    (tmp_path / "whole").mkdir()
    (tmp_path / "broken").mkdir()
    check_alike(*sides(s3.client, str(tmp_path / "whole"), bucket_of_laws, BucketStore), TREE, "b", "a/x", "b")
    with pytest.raises(AssertionError):
        check_alike(*sides(s3.client, str(tmp_path / "broken"), bucket_of_laws, broken), TREE, "b", "a/x", "b")
