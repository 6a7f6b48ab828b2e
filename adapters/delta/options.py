"""The settings of the target `delta`."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from lakeward.adapters.tables.namespace import Namespace


class DeltaOptions(BaseModel):
    """Delta Lake tables by path: `<warehouse>/<namespace>/<table>`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    warehouse: str = Field(
        description="Where the tables lie: a path, relative to the settings file where it is not absolute."
    )
    namespace: Namespace = Field(
        "{schema}", description="The folder of a table; {schema} stands for its schema at the source."
    )


class TableOptions(BaseModel):
    """How one Delta table is made."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    partition_by: list[str] = Field(
        default_factory=list, description="Columns that rows are partitioned by; Delta knows no transforms."
    )
    write_mode: Literal["merge-on-read", "copy-on-write"] = Field(
        "merge-on-read",
        description="Whether a change marks the old row as deleted in a deletion vector (fast to write), or "
        "rewrites its file (any reader of Delta knows it).",
    )
    properties: dict[str, str] = Field(
        default_factory=dict, description="Table properties, as Delta names them; they are set when it is made."
    )
