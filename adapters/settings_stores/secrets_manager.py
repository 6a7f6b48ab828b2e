"""Settings in Secrets Manager: a pipeline in one secret, or a secret for each table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from lakeward.adapters.aws.service_clients import create_client, explain_errors
from lakeward.adapters.settings_stores.hudi_job import read_parameters
from lakeward.adapters.settings_stores.pipeline_text import PipelineText
from lakeward.adapters.settings_stores.table_entries import layer_of_tables
from lakeward.core.errors import ConfigError
from lakeward.core.ports import SettingsStore
from lakeward.core.settings.layers import SettingsEntry, SettingsLayer
from lakeward.core.settings.text import read_settings
from lakeward.plugins import Options, Registry, Runtime, hookimpl
from lakeward.plugins.options import validated

_PAGE: Final = "docs/how-to/aws/settings.md"


class SecretsManagerStoreOptions(BaseModel):
    """Secrets of Secrets Manager with TOML, or with the same content as JSON."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: str = Field(
        description='The name or the ARN of the secret; with `form = "tables"` the prefix of the names of secrets.'
    )
    form: Literal["pipeline", "tables"] = Field(
        "pipeline",
        description="`pipeline`: one secret has settings of the whole pipeline. `tables`: each secret whose "
        "name begins with `name`, as `hudi/`, has the keys of one table, whose name follows the prefix.",
    )
    tables: list[str] | None = Field(
        None,
        min_length=1,
        description='With `form = "tables"`: only the secrets of these tables are read, as `shop.orders`. `name` '
        "may be empty then.",
    )

    @model_validator(mode="after")
    def _has_names(self) -> Self:
        if self.tables is not None and self.form != "tables":
            raise ValueError('`tables` is for secrets of tables: set `form = "tables"`, too, or leave it out')
        if not self.name and self.tables is None:
            raise ValueError("`name` is empty: set the prefix of the secrets, or list the `tables`")
        return self


@dataclass(frozen=True, slots=True)
class TableSecrets:
    """A secret for each table, named by a prefix and the table; for these `tables`, or for all that exist."""

    prefix: str
    tables: Sequence[str] | None = None

    def read(self) -> SettingsLayer:
        """Return the content of the secrets; without a secret, a layer without tables and a warning."""
        place = f"secrets {self.prefix}*"
        with explain_errors(place, _PAGE):
            client = create_client("secretsmanager")
            tables = [*_list_tables(client, self.prefix)] if self.tables is None else self.tables
        return layer_of_tables(place, [self._entry(client, table) for table in tables])

    def _entry(self, client: Any, table: str) -> SettingsEntry:
        name = f"{self.prefix}{table}"
        place = f"secret {name}"
        try:
            with explain_errors(place, _PAGE):
                text = _value(client, name)
            keys = read_parameters(read_settings(text, place), place)
        except ConfigError as error:
            return SettingsEntry(table=table, origin=place, error=error)
        return SettingsEntry(table=table, origin=place, keys=keys)


def _list_tables(client: Any, prefix: str) -> Iterator[str]:
    """Yield the names of secrets with a prefix, without the prefix."""
    pages = client.get_paginator("list_secrets").paginate(Filters=[{"Key": "name", "Values": [prefix]}])
    for page in pages:
        for secret in page["SecretList"]:
            if secret["Name"].startswith(prefix):
                yield str(secret["Name"]).removeprefix(prefix)


def _value(client: Any, name: str) -> str:
    response = client.get_secret_value(SecretId=name, VersionStage="AWSCURRENT")
    text = response.get("SecretString")
    if text is None:
        raise ConfigError(f"secret {name} is no text", todo="Store its settings as a text of TOML or JSON.")
    return str(text)


def build(options: Options, runtime: Runtime) -> SettingsStore:
    """Build the reader of secrets; no request is sent yet."""
    settings = validated(SecretsManagerStoreOptions, options, str(runtime.file), within="settings.stores")
    if settings.form == "tables":
        return TableSecrets(settings.name, settings.tables)
    return PipelineText(f"secret {settings.name}", "secretsmanager", settings.name, _value)


@hookimpl
def register(registry: Registry) -> None:
    """Register the settings store `secretsmanager`."""
    registry.settings_stores.add("secretsmanager", build)
