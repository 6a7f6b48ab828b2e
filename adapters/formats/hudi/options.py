"""The settings of the target `hudi`."""

from __future__ import annotations

import re
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from lakeward.adapters.formats.shared.options.path_options import PathOptions

LASTING: Final = ("partition_by", "write_mode", "buckets")
"""The options that decide where and how rows are stored; they never change."""

_HARMLESS: Final = re.compile(
    r"hoodie\.(archive|bulkinsert|clean|cleaner|compact|compaction|delete|insert|keep|logfile|markers|memory|parquet"
    r"|upsert)\..+"
)
"""Properties that settings may set: how files are written and cleaned up, and never which rows there are."""

_MERGING: Final = frozenset(
    {
        *("hoodie.compaction.payload.class", "hoodie.compaction.record.merger.strategy"),
        "hoodie.compact.merge.handle.class",
    }
)
"""Properties with such names that decide which row counts."""


class HudiOptions(PathOptions):
    """Apache Hudi tables by path: `<warehouse>/<namespace>/<table>`."""


class TableOptions(BaseModel):
    """The options of one Hudi table."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    partition_by: list[str] = Field(
        default_factory=list, description="Columns that rows are partitioned by; Hudi knows no transforms."
    )
    write_mode: Literal["merge-on-read", "copy-on-write"] = Field(
        "merge-on-read",
        description="Whether a change is added to a log beside the old rows (fast to write), or rewrites their "
        "file (fast to read).",
    )
    buckets: int = Field(
        4,
        ge=1,
        le=1000,
        description="Into how many groups of files the keys of a partition are hashed, for good: one for each "
        "million rows or so. A change is written by as many tasks.",
    )
    properties: dict[str, str] = Field(
        default_factory=dict, description="Settings of Hudi's writer, as Hudi names them; they hold for each write."
    )


def is_harmless(name: str) -> bool:
    """Return whether settings may set a property."""
    return _HARMLESS.fullmatch(name) is not None and name not in _MERGING
