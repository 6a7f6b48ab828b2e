"""The Glue Data Catalog, in which Athena, Spark and Trino find tables that have no catalog of their own."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from lakeward.adapters.registrations.glue.lake_formation import AccessOptions, LakeFormation
from lakeward.core.ports import Registration
from lakeward.plugins import Options, Registry, Runtime, hookimpl
from lakeward.plugins.options import validated


class GlueOptions(BaseModel):
    """A catalog of AWS Glue (docs/how-to/aws/catalogs.md)."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    database: str | None = Field(
        None,
        min_length=1,
        description="The database of all tables. Without it each namespace of the lake has a database of its name.",
    )
    region: str | None = Field(
        None,
        min_length=1,
        description="The region of the catalog. The default is that of the environment or the profile.",
    )
    catalog_id: str | None = Field(
        None,
        min_length=1,
        description="The id of the catalog, as `123456789012`. The default is that of the account.",
    )
    lake_formation: AccessOptions | None = Field(
        None, description="Tags and grants of Lake Formation; without it none are set."
    )


def build(options: Options, runtime: Runtime) -> Registration:
    """Build the registration; no request is sent yet."""
    from lakeward.adapters.registrations.glue.catalog import GlueCatalog  # noqa: PLC0415  # boto3 is optional

    settings = validated(GlueOptions, options, str(runtime.file), within="registration")
    access = settings.lake_formation
    return GlueCatalog(
        access=None if access is None else LakeFormation(access, settings.region, settings.catalog_id),
        pipeline=runtime.pipeline,
        database=settings.database,
        region=settings.region,
        catalog_id=settings.catalog_id,
    )


@hookimpl
def register(registry: Registry) -> None:
    """Register the registration `glue`."""
    registry.registrations.add("glue", build)
