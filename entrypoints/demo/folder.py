"""The folder of a demo. Only an earlier demo is ever replaced."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from lakeward.core.dimension import Dimension
from lakeward.core.errors import ConfigError
from lakeward.entrypoints.demo.capture import STYLE
from lakeward.entrypoints.demo.shop import ORDERS, TABLES
from lakeward.entrypoints.settings.configuration import FILE

DATABASE: Final = "shop.db"
LANDING: Final = "landing"
LAKE: Final = "lake"
_STATE: Final = "state"
_MARKER: Final = ".lakeward-demo"
_DEMO_FILES: Final = (DATABASE, LANDING, LAKE, _STATE, FILE, _MARKER)

FILES_PER_BATCH: Final = 5


def make_folder(folder: Path, kind: str, *, again: bool) -> None:
    """Create the folder of a demo, with its settings file, for tables of the format `kind`.

    With `again` an earlier demo is replaced; only files of the demo are removed. Raises ConfigError for a folder
    that has other files, and for an earlier demo without `again`.
    """
    try:
        _clear(folder, again=again)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / _MARKER).write_text("`lakeward demo` created this folder; --force replaces it.\n", "utf-8")
        (folder / LANDING).mkdir()
        (folder / FILE).write_text("\n".join(_settings(kind)), encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"the folder {folder} cannot be created", found=str(error), todo="Name another: `lakeward demo FOLDER`"
        ) from error


def _clear(folder: Path, *, again: bool) -> None:
    if not folder.exists() or (folder.is_dir() and not os.listdir(folder)):
        return
    if not (folder / _MARKER).is_file():
        raise ConfigError(
            f"{folder} exists already, and is no demo",
            todo="Nothing was changed. Name another folder: `lakeward demo FOLDER`",
        )
    named = shlex.quote(str(folder))
    if not again:
        raise ConfigError(
            f"there is a demo in {folder} already",
            todo=f"Inspect it (`cd {named} && lakeward status`), or replace it: `lakeward demo {named} --force`",
        )
    for name in _DEMO_FILES:
        path = folder / name
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def _settings(kind: str) -> Iterator[str]:
    """Return the lines of the settings file."""
    yield from (
        "# The demo's pipeline, as `lakeward run --once` in this folder runs it.",
        "",
        "[pipeline]",
        'name = "demo"',
        f'state = "{_STATE}/"',
        "",
        "[source]",
        'kind = "dms"',
        f'path = "{LANDING}/"',
        f'timestamp_column = "{STYLE.timestamp_column}"',
        f"max_files = {FILES_PER_BATCH}    # few, so that there are several batches; the default is 1000",
        "",
        "[target]",
        f'kind = "{kind}"',
        f'warehouse = "{LAKE}/"',
        "",
        "[spark.settings]",
        "# Java starts fast with these options, and is slow with much data: remove them for your own tables.",
        '"spark.driver.extraJavaOptions" = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"',
    )
    for table in TABLES:
        yield from (
            "",
            f'[tables."{table.name}"]{"" if table.key else "    # has no key: append-only"}',
        )
        if table.key:
            yield f"key = {json.dumps(table.key)}"
        if table is ORDERS:
            yield 'partition_by = ["status"]    # an order that is paid moves to another partition'
        yield from _columns(table)
    yield ""


def _columns(table: Dimension) -> Iterator[str]:
    yield f'[tables."{table.name}".columns]'
    yield from (f'{column.name} = "{column.type}"' for column in table.schema)
