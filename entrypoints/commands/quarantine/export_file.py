"""Export of rows in quarantine to a file: one JSON document per line, or CSV."""

from __future__ import annotations

import csv
import json
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Literal, TextIO

from lakeward.core.errors import ConfigError

Format = Literal["jsonl", "csv"]


def export(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], file: Path | None, form: Format) -> None:
    """Write rows to a new file or to standard output; raises ConfigError if the file cannot be created."""
    try:
        opened = nullcontext(sys.stdout) if file is None else file.open("x", encoding="utf-8", newline="")
    except FileExistsError as error:
        raise ConfigError(f"{file} exists", todo="Name another file, or move it away.") from error
    except OSError as error:
        raise ConfigError(f"{file} cannot be written", found=str(error)) from error
    with opened as out:
        _csv(rows, columns, out) if form == "csv" else _lines(rows, out)


def _lines(rows: Sequence[Mapping[str, Any]], out: TextIO) -> None:
    for row in rows:
        out.write(json.dumps(row, ensure_ascii=False) + "\n")


def _csv(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], out: TextIO) -> None:
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(row[name]) for name in columns])


def _cell(value: object) -> object:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | tuple) else value
