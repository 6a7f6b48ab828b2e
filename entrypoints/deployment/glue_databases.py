"""The databases of Glue catalogs that a pipeline uses, read from its settings."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from lakeward.adapters.registrations.glue import GlueOptions
from lakeward.adapters.registrations.glue.lake_formation import AccessOptions
from lakeward.core.errors import ConfigError
from lakeward.entrypoints.deployment.pipeline import AssumedRole, DeployedRegistration, GlueDatabases
from lakeward.entrypoints.settings.configuration import Configuration
from lakeward.entrypoints.settings.models.sections import RegistrationSettings
from lakeward.entrypoints.settings.patterns import table_name
from lakeward.plugins.options import validated


def iceberg_databases(configured: Configuration, target: Mapping[str, Any]) -> GlueDatabases | None:
    """Return the Glue databases of Iceberg tables; None with another catalog or format."""
    if target["kind"] != "iceberg" or target.get("catalog") != "glue":
        return None
    properties = target.get("catalog_properties", {})
    region = properties.get("glue.region") or properties.get("client.region")
    names = sorted(_namespaces(configured, target))
    return GlueDatabases(names=names, region=region, account=_account(properties.get("glue.id"), "glue.id"))


def assumed_role(target: Mapping[str, Any]) -> AssumedRole | None:
    """Return the role that Iceberg assumes, if the settings of [target] name one."""
    properties = target.get("catalog_properties", {})
    arn = properties.get("client.assume-role.arn")
    has_tags = any(name.startswith("client.assume-role.tags.") for name in properties)
    return None if arn is None else AssumedRole(arn=arn, has_tags=has_tags)


def _namespaces(configured: Configuration, target: Mapping[str, Any]) -> set[str]:
    """Return the namespaces of the tables of the lake; that of a pattern is a pattern of IAM."""
    names = [*configured.tables, *configured.joined, *map(table_name, configured.patterns)]
    namespace = str(target.get("namespace", "{schema}"))
    return {namespace.format(schema=name.schema, table=name.table) for name in names}


def glue_registration(configured: Configuration, target: Mapping[str, Any]) -> DeployedRegistration | None:
    """Return the registration in Glue; None without one. Names in Glue are in lower case."""
    settings = configured.settings.registration
    if settings is None or settings.kind != "glue":
        return None
    options = validated(GlueOptions, settings.model_extra or {}, str(configured.file), within="registration")
    account = _account(options.catalog_id, "catalog_id")
    tables = _namespaces(configured, target) if target["kind"] != "iceberg" else set()
    files = _namespaces_of_files(configured, settings)
    if options.database is not None:
        tables, files = ({options.database} if names else set() for names in (tables, files))
    access = options.lake_formation or AccessOptions()
    own = [*access.tables.values()]
    return DeployedRegistration(
        tables=_in_glue(tables, options.region, account),
        files=_in_glue(files, options.region, account),
        sets_tags=any([access.database_tags, access.lf_tags, *(t.lf_tags or t.column_tags for t in own)]),
        grants=any([access.database_grants, access.grants, *(t.grants for t in own)]),
    )


def _namespaces_of_files(configured: Configuration, settings: RegistrationSettings) -> set[str]:
    if settings.raw is None:
        return set()
    names = [*configured.source_names.values(), *map(table_name, configured.patterns)]
    return {settings.raw_namespace(name.schema) for name in names}


def _in_glue(names: Iterable[str], region: str | None, account: str | None) -> GlueDatabases:
    return GlueDatabases(names=sorted({name.lower() for name in names}), region=region, account=account)


def _account(catalog: str | None, key: str) -> str | None:
    """Return the account of a catalog; raises ConfigError for a nested catalog, which has another form of ARN."""
    if catalog is not None and not re.fullmatch(r"\d{12}", catalog):
        raise ConfigError(
            f"a template cannot grant access to the catalog of `{key}`",
            found=f"it is {catalog!r}",
            todo="Name the catalog of an account by its 12 digits, or leave it out.",
        )
    return catalog
