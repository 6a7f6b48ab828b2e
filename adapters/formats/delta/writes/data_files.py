"""The data files of a version of a Delta table, read from its log in this process.

Delta finds them with a Spark job for each version. A log of a few megabytes is read here instead. The newest entry
of a file counts (github.com/delta-io/delta/blob/master/PROTOCOL.md#action-reconciliation).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import pyarrow.compute as pc
import pyarrow.parquet as pq

from lakeward.adapters.formats.delta.java import Jvm
from lakeward.adapters.formats.delta.metadata.progress import LOG, file_of
from lakeward.adapters.formats.shared.storage.folder import Folder

_MOST_BYTES: Final = 16 * 1024**2
"""A log with more bytes to read is read by Spark."""

_CHECKPOINT: Final = re.compile(r"\d{20}\.checkpoint\.parquet")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_=-][A-Za-z0-9_.=/-]*")
"""Paths in the table's folder that are the same in the log, on the disk and in a URL."""

_SIDECAR: Final = "sidecar"
_KINDS: Final = ("add", "remove")
_FIELDS: Final = (
    "path",
    "partitionValues",
    "size",
    "modificationTime",
    "dataChange",
    "stats",
    "tags",
    "deletionVector",
    "baseRowId",
    "defaultRowCommitVersion",
    "clusteringProvider",
)
"""The fields of a file in a checkpoint that this process can read; with others, Delta reads the log."""

_PARSED: Final = ("stats_parsed", "partitionValues_parsed")
"""Fields that a checkpoint repeats as columns."""

Add = Mapping[str, Any]
"""The entry of an added data file in a log: the fields of `AddFile` by their names in JSON."""


class DataFiles:
    """The data files of a Delta snapshot, from the log, read when they are needed."""

    def __init__(self, jvm: Jvm, table: Folder, snapshot: Any) -> None:
        self.jvm = jvm
        self.table = table
        self.snapshot = snapshot

    @cached_property
    def by_url(self) -> Mapping[str, Add] | None:
        """All files by the URLs that Spark writes; None if only Delta can tell them."""
        adds = read_log(self.table, int(self.snapshot.version()))
        checksum = self.snapshot.checksumOpt()
        if adds is None or (checksum.isDefined() and int(checksum.get().numFiles()) != len(adds)):
            return None
        paths = self.jvm.single(self.jvm.root.org.apache.spark.paths, "SparkPath")
        folder = str(paths.fromPath(self.snapshot.deltaLog().dataPath()).urlEncoded())
        return {f"{folder}/{add['path']}": add for add in adds}


def read_log(table: Folder, version: int) -> Sequence[Add] | None:
    """Return the data files of a version of a table, given its folder; None if only Delta can tell them.

    That is so if the log is long, lacks a commit, or has paths or a checkpoint of another form.
    """
    log = table.within(LOG)
    sizes = {file.name: file.size for file in log.files()}
    names = _read_for(version, sizes)
    if not sizes.keys() >= {*names} or sum(sizes[name] for name in names) > _MOST_BYTES:
        return None
    adds, newest_keys = list[Add](), set[tuple[Any, ...]]()
    for name in names:
        for kind, action in _actions(log, name):
            if kind not in _KINDS or not _PLAIN.fullmatch(action["path"]):
                return None
            if (key := _key(action)) not in newest_keys:
                newest_keys.add(key)
                adds += [action] if kind == "add" else []
    return adds


def _read_for(version: int, names: Mapping[str, int]) -> Sequence[str]:
    """Return the log files that describe a version: commits, newest first, and the checkpoint before them."""
    bases = [name for name in names if _CHECKPOINT.fullmatch(name) and int(name[:20]) <= version]
    first = 1 + max((int(name[:20]) for name in bases), default=-1)
    return [*map(file_of, range(version, first - 1, -1)), *([max(bases)] if bases else [])]


def _key(action: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what identifies a file in a log: its path and its deletion vector."""
    vector = action.get("deletionVector") or {}
    return action["path"], vector.get("storageType"), vector.get("pathOrInlineDv"), vector.get("offset")


def _actions(log: Folder, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the files that a commit or checkpoint adds and removes.

    An action of another kind means that only Delta can read the log.
    """
    with log.open(name) as opened:
        if not name.endswith(".json"):
            yield from _read_checkpoint(pq.ParquetFile(opened))
            return
        for line in opened:
            for kind, action in json.loads(line).items():
                if kind in _KINDS:
                    yield kind, action


def _read_checkpoint(checkpoint: pq.ParquetFile) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the files of a checkpoint. Removed files in it are not needed."""
    fields = [field.name for field in checkpoint.schema_arrow.field("add").type]
    if _has_sidecars(checkpoint) or not {*fields} <= {*_FIELDS, *_PARSED}:
        yield _SIDECAR, {}
        return
    rows = checkpoint.read([f"add.{name}" for name in fields if name in _FIELDS])["add"]
    for add in rows.filter(pc.is_valid(rows)).to_pylist():
        lacks_stats = add.get("stats") is None and "stats_parsed" in fields
        tags = add.pop("tags", None)
        maps = {"partitionValues": dict(add["partitionValues"]), **({"tags": dict(tags)} if tags else {})}
        yield "stats" if lacks_stats else "add", {**_without_nulls(add), **maps}


def _has_sidecars(checkpoint: pq.ParquetFile) -> bool:
    """Return whether a checkpoint refers to sidecar files."""
    if _SIDECAR not in checkpoint.schema_arrow.names:
        return False
    sidecars = checkpoint.read([_SIDECAR])[_SIDECAR]
    return bool(sidecars.null_count < len(sidecars))


def _without_nulls(add: Mapping[str, Any]) -> Mapping[str, Any]:
    values = {name: value for name, value in add.items() if value is not None}
    return {name: _without_nulls(value) if isinstance(value, dict) else value for name, value in values.items()}
