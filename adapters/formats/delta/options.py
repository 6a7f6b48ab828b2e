"""The settings of the target `delta`."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from lakeward.adapters.formats.shared.options.path_options import PathOptions


class DeltaOptions(PathOptions):
    """Delta Lake tables by path: `<warehouse>/<namespace>/<table>`."""


class TableOptions(BaseModel):
    """The options of one Delta table."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    partition_by: list[str] = Field(
        default_factory=list, description="Columns that rows are partitioned by; Delta knows no transforms."
    )
    cluster_by: list[str] = Field(
        default_factory=list,
        max_length=4,
        description="Columns by which rows are put together when files are written anew (liquid clustering), "
        "instead of partitions: up to four.",
    )
    write_mode: Literal["merge-on-read", "copy-on-write"] = Field(
        "merge-on-read",
        description="Whether a change marks the old row as deleted in a deletion vector (fast to write), or "
        "rewrites its file (any reader of Delta knows it).",
    )
    properties: dict[str, str] = Field(default_factory=dict, description="Table properties, as Delta names them.")

    @model_validator(mode="after")
    def _is_one_or_the_other(self) -> Self:
        if self.partition_by and self.cluster_by:
            raise ValueError(
                "rows are partitioned or clustered: `partition_by` and `cluster_by` exclude each other"
            )
        return self
