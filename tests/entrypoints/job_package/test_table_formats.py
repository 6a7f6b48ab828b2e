"""The table formats of packaged jobs: all that lakeward registers, and as the command names them."""

from __future__ import annotations

from typing import get_args

from lakeward.entrypoints.job_package.table_formats import TABLE_FORMATS, FormatName
from lakeward.plugins.manager import load, registry_of


def test_every_table_format_of_lakeward_can_be_packaged() -> None:
    formats = registry_of(load(entry_points=False)).formats
    own = {name for name in formats if formats.origin(name).startswith("lakeward.adapters.formats.")}
    assert set(TABLE_FORMATS) == own


def test_the_command_accepts_the_table_formats_of_packaged_jobs() -> None:
    assert get_args(FormatName) == tuple(TABLE_FORMATS)
