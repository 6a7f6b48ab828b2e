"""Reading DMS files of CSV by the reference reader, without Spark."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

from lakeward.adapters.sources.csv.layout import OP, TIME, ExpectedLayout, find_layout
from lakeward.adapters.sources.csv.parser import records
from lakeward.adapters.sources.dms.paths.file_names import known_name
from lakeward.adapters.sources.dms.writer import Style
from lakeward.core.dimension import Dimension


def content_of(path: Path) -> str:
    data = path.read_bytes()
    return (gzip.decompress(data) if path.suffix == ".gz" else data).decode()


def rows_of(
    path: Path, dimension: Dimension, style: Style
) -> Iterator[tuple[str | None, str | None, dict[str, str | None]]]:
    """Read operation, commit time and texts of each row, in the layout of the file."""
    expected = ExpectedLayout(dimension, style.dialect, style.op_column, style.timestamp_column)
    content = content_of(path)
    layout = find_layout(path.name, content, expected, is_load=known_name(path.name).is_load)
    if layout.is_crlf:
        # Of a row that goes over lines, only the last line has the file's own line end.
        rows = [record.text.removesuffix("\r") for record in records(content, style.dialect)]
        found = [next(records(row, style.dialect)).fields for row in rows]
    else:
        found = [record.fields for record in records(content, style.dialect)]
    for fields in found[layout.has_header :]:
        assert fields is not None
        by_name = dict(zip(layout.columns, fields, strict=True))
        yield by_name.pop(OP, None), by_name.pop(TIME, None), by_name
