"""Iceberg tables of others that were moved: the paths in their metadata are rewritten."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any, Final

import fastavro

_MOST = 2**63 - 1
"""The longest number that Java reads."""


_EQUALITY_ID: Final = 136
"""The number that the field of each column's id has, by which rows are deleted: an `int`, as Java has it."""


def move_table(source: Path, target: Path, was: str, *, is_mended: bool = False) -> Path:
    """Copy a table whose paths begin with `was`, rewrite the paths, and return its metadata.

    Column ids in manifests made by hand are a `long`, and are changed to an `int` as in the
    specification.
    """
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.crc"))

    def here(value: Any) -> Any:
        if isinstance(value, str):
            return value.replace(was, str(target))
        if isinstance(value, dict):
            return {key: here(part) for key, part in value.items()}
        if isinstance(value, int) and value > _MOST:  # the number of a snapshot that was made by hand
            return value // 10
        return [here(part) for part in value] if isinstance(value, list) else value

    metadata = target / "metadata"
    for manifest in sorted(metadata.glob("*-m*.avro")):
        _rewrite(manifest, here, _with_ids if is_mended else _as_it_is)
    sizes = {str(file): file.stat().st_size for file in metadata.glob("*-m*.avro")}

    def listed(entry: Any) -> Any:
        own_entry = here(entry)
        return {**own_entry, "manifest_length": sizes[own_entry["manifest_path"]]}

    for manifests in metadata.glob("snap-*.avro"):
        _rewrite(manifests, listed, _as_it_is)
    newest = max(metadata.glob("*.metadata.json"), key=lambda file: len(json.loads(file.read_text())["snapshots"]))
    newest.write_text(json.dumps(here(json.loads(newest.read_text()))))
    return newest


def _as_it_is(schema: Any) -> Any:
    return schema


def _with_ids(schema: Any) -> Any:
    if isinstance(schema, dict):
        parts = {key: _with_ids(part) for key, part in schema.items()}
        return {**parts, "items": "int"} if parts.get("element-id") == _EQUALITY_ID else parts
    return [_with_ids(part) for part in schema] if isinstance(schema, list) else schema


def _rewrite(file: Path, change: Any, form: Any) -> None:
    with file.open("rb") as stream:
        reader = fastavro.reader(stream)
        schema, rows = form(reader.writer_schema), [change(row) for row in reader]
        metadata = {name: value for name, value in reader.metadata.items() if not name.startswith("avro.")}
    with file.open("wb") as stream:
        fastavro.writer(stream, schema, rows, metadata=metadata)
