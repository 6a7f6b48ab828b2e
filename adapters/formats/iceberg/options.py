"""The settings of the target `iceberg`."""

from __future__ import annotations

from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from lakeward.adapters.formats.shared.options.namespace import Namespace


class IcebergOptions(BaseModel):
    """Apache Iceberg tables under one catalog: `<catalog_name>.<namespace>.<table>`."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    warehouse: str = Field(
        description="Where the tables lie: a path, relative to the settings file where it is not absolute, or "
        "`s3://bucket/prefix`; see docs/reference/s3.md. With a table bucket of S3 Tables its ARN; see "
        "docs/how-to/aws/catalogs.md."
    )
    namespace: Namespace = Field(
        "{schema}", description="The namespace of a table; {schema} stands for its schema at the source."
    )
    catalog: Literal["sqlite", "rest", "glue", "hive"] = Field(
        "sqlite",
        description="The catalog. `sqlite` is the file `catalog.db` in the warehouse (where that is in S3, beside "
        "the settings file), which PyIceberg and DuckDB open as well. Another database takes a REST catalog before "
        "it: Spark and PyIceberg name one each in a way of their own.",
    )
    catalog_name: str = Field(
        "lake",
        pattern=r"^[A-Za-z_][A-Za-z0-9_]*$",
        description="What the catalog is called; readers use the same name.",
    )
    catalog_properties: dict[str, str] = Field(
        default_factory=dict,
        description="Properties of another catalog than `sqlite`, as Iceberg names them (`uri`, …).",
    )

    @model_validator(mode="after")
    def _has_a_catalog_of_buckets(self) -> Self:
        if self.is_table_bucket and self.catalog != "rest":
            raise ValueError('a table bucket is reached by `catalog = "rest"` (docs/how-to/aws/catalogs.md)')
        return self

    @property
    def is_table_bucket(self) -> bool:
        """Whether the tables are in a table bucket of S3 Tables, which decides on their locations."""
        return self.warehouse.startswith("arn:")


class TableOptions(BaseModel):
    """The options of one Iceberg table."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    partition_by: list[str] = Field(
        default_factory=list,
        description="Columns or transforms: `day(at)`, `month(at)`, `year(at)`, `hour(at)`, "
        "`bucket(16, id)`, `truncate(4, code)`.",
    )
    sort_by: list[str] = Field(
        default_factory=list,
        description="Columns that rows are sorted by within files; `at desc` to reverse.",
    )
    format_version: Literal[2, 3] = Field(
        2, description="Iceberg's format. 3 has deletion vectors and row lineage; not every reader knows it."
    )
    write_mode: Literal["merge-on-read", "copy-on-write"] = Field(
        "merge-on-read",
        description="Whether a change marks the old row as deleted (fast to write), or rewrites its file "
        "(fast to read).",
    )
    properties: dict[str, str] = Field(
        default_factory=dict,
        description="Table properties, as Iceberg names them.",
    )
