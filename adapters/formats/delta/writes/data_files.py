"""The data files of a version of a Delta table, read from its log by this process.

Delta finds them by a job of Spark for each version that it meets. A log of a few megabytes is read here instead: of
what it says of a file the newest counts (github.com/delta-io/delta/blob/master/PROTOCOL.md#action-reconciliation).
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
"""A log with more to read is read by Spark."""

_CHECKPOINT: Final = re.compile(r"\d{20}\.checkpoint\.parquet")
_PLAIN: Final = re.compile(r"[A-Za-z0-9_=-][A-Za-z0-9_.=/-]*")
"""Paths within the table's folder that are the same in the log, on the disk and in a URL."""

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
"""What a checkpoint says of a file, and no more, where this process reads it."""

_PARSED: Final = ("stats_parsed", "partitionValues_parsed")
"""What a checkpoint says of a file a second time, in columns."""

Add = Mapping[str, Any]
"""What a log says of a data file that it adds: the fields of `AddFile` by their names in JSON."""


class DataFiles:
    """The data files of a snapshot of Delta, as the log has them; read when they are asked for."""

    def __init__(self, jvm: Jvm, table: Folder, snapshot: Any) -> None:
        self.jvm = jvm
        self.table = table
        self.snapshot = snapshot

    @cached_property
    def by_url(self) -> Mapping[str, Add] | None:
        """All files, by their URLs as Spark writes these; None where only Delta itself can tell them."""
        adds = read_log(self.table, int(self.snapshot.version()))
        summed = self.snapshot.checksumOpt()
        if adds is None or (summed.isDefined() and int(summed.get().numFiles()) != len(adds)):
            return None
        paths = self.jvm.single(self.jvm.root.org.apache.spark.paths, "SparkPath")
        folder = str(paths.fromPath(self.snapshot.deltaLog().dataPath()).urlEncoded())
        return {f"{folder}/{add['path']}": add for add in adds}


def read_log(table: Folder, version: int) -> Sequence[Add] | None:
    """Return the data files of a version of a table, whose folder is given; None where only Delta can tell them.

    That is so where the log is long, lacks a commit, or has paths or a checkpoint of another form.
    """
    log = table.within(LOG)
    sizes = {file.name: file.size for file in log.files()}
    names = _read_for(version, sizes)
    if not sizes.keys() >= {*names} or sum(sizes[name] for name in names) > _MOST_BYTES:
        return None
    found, seen = list[Add](), set[tuple[Any, ...]]()
    for name in names:
        for kind, action in _actions(log, name):
            if kind not in _KINDS or not _PLAIN.fullmatch(action["path"]):
                return None
            if (key := _key(action)) not in seen:
                seen.add(key)
                found += [action] if kind == "add" else []
    return found


def _read_for(version: int, names: Mapping[str, int]) -> Sequence[str]:
    """Return the files of a log that tell of a version: commits, newest first, and the checkpoint behind them."""
    bases = [name for name in names if _CHECKPOINT.fullmatch(name) and int(name[:20]) <= version]
    first = 1 + max((int(name[:20]) for name in bases), default=-1)
    return [*map(file_of, range(version, first - 1, -1)), *([max(bases)] if bases else [])]


def _key(action: Mapping[str, Any]) -> tuple[Any, ...]:
    """Return what the newest word stands on: a file with its deletion vector."""
    vector = action.get("deletionVector") or {}
    return action["path"], vector.get("storageType"), vector.get("pathOrInlineDv"), vector.get("offset")


def _actions(log: Folder, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield which files a commit or a checkpoint adds and removes; another kind is what nobody here can read."""
    with log.open(name) as opened:
        if not name.endswith(".json"):
            yield from _read_checkpoint(pq.ParquetFile(opened))
            return
        for line in opened:
            for kind, action in json.loads(line).items():
                if kind in _KINDS:
                    yield kind, action


def _read_checkpoint(checkpoint: pq.ParquetFile) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the files of a checkpoint; those that were removed are not in use, and need not be known."""
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
    """Return whether a checkpoint names files that have what it does not say itself."""
    if _SIDECAR not in checkpoint.schema_arrow.names:
        return False
    found = checkpoint.read([_SIDECAR])[_SIDECAR]
    return bool(found.null_count < len(found))


def _without_nulls(add: Mapping[str, Any]) -> Mapping[str, Any]:
    found = {name: value for name, value in add.items() if value is not None}
    return {name: _without_nulls(value) if isinstance(value, dict) else value for name, value in found.items()}
