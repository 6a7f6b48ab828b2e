"""The settings of a target whose tables are found by their paths."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from lakeward.adapters.formats.shared.options.namespace import Namespace


class PathOptions(BaseModel):
    """Tables by path: `<warehouse>/<namespace>/<table>`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    warehouse: str = Field(
        description="Where the tables lie: a path, relative to the settings file where it is not absolute, or "
        "`s3://bucket/prefix`; see docs/reference/s3.md."
    )
    namespace: Namespace = Field(
        "{schema}", description="The folder of a table; {schema} stands for its schema at the source."
    )
