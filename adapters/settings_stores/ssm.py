"""Settings in the Parameter Store of Systems Manager: one parameter for a pipeline, or one for each table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from lakeward.adapters.aws.service_clients import create_client, explain_errors
from lakeward.adapters.settings_stores.pipeline_text import PipelineText
from lakeward.adapters.settings_stores.published_pipeline import read_pipeline, read_tables
from lakeward.adapters.settings_stores.table_entries import layer_of_tables
from lakeward.core.errors import ConfigError
from lakeward.core.ports import SettingsStore
from lakeward.core.settings.layers import SettingsEntry, SettingsLayer, layer_of_entries
from lakeward.core.settings.text import read_settings
from lakeward.plugins import Options, Registry, Runtime, hookimpl
from lakeward.plugins.options import validated

_PAGE: Final = "docs/how-to/aws/settings.md"


class SsmStoreOptions(BaseModel):
    """Parameters of Systems Manager, decrypted if they are secure, with TOML or with the same content as JSON."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: str = Field(
        min_length=1,
        description="The name of the parameter; with another `form` than `pipeline` a path or the name of a stack.",
    )
    form: Literal["pipeline", "tables", "published"] = Field(
        "pipeline",
        description="`pipeline`: one parameter has settings of the whole pipeline. `tables`: `name` is a path, as "
        "`/lakeward/shop`. Each parameter directly below it has the keys of the table of its name. `published`: "
        "`name` is a stack, with the parameters `NAME-iceberg-tables` and `NAME-iceberg-config`.",
    )

    @field_validator("name")
    @classmethod
    def _without_trailing_slash(cls, value: str) -> str:
        return value.rstrip("/") or value


@dataclass(frozen=True, slots=True)
class TableParameters:
    """A parameter for each table, directly below a path."""

    path: str

    def read(self) -> SettingsLayer:
        """Return the content of the parameters; without a parameter, a layer without tables and a warning."""
        place = f"ssm path {self.path}"
        with explain_errors(place, _PAGE):
            texts = dict(_list_parameters(create_client("ssm"), self.path))
        return layer_of_tables(place, [self._entry(name, text) for name, text in texts.items()])

    def _entry(self, name: str, text: str) -> SettingsEntry:
        """Return the settings in a parameter. The name of its table follows the path."""
        table, place = name.removeprefix(f"{self.path.rstrip('/')}/"), f"ssm parameter {name}"
        try:
            if "/" in table:
                raise ConfigError(
                    f"{place} is not directly below {self.path}",
                    todo="Move it directly below the path, under the name of its table. Move a parameter that "
                    "is not for a table to another path.",
                )
            return SettingsEntry(table=table, origin=place, keys=read_settings(text, place))
        except ConfigError as error:
            return SettingsEntry(table=table, origin=place, error=error)


@dataclass(frozen=True, slots=True)
class PublishedParameters:
    """The two parameters of a stack of the published pipeline; the one with the buckets may be missing."""

    stack: str

    def read(self) -> SettingsLayer:
        """Return the tables of one parameter, and the paths of the other.

        Raises ConfigError if the first does not exist, a parameter may not be read, or the second is invalid.
        """
        tables, config = (f"{self.stack}-iceberg-{name}" for name in ("tables", "config"))
        tables_place, config_place = f"ssm parameter {tables}", f"ssm parameter {config}"
        with explain_errors(tables_place, _PAGE):
            client = create_client("ssm")
            text = _value(client, tables)
        with explain_errors(config_place, _PAGE):
            response = client.get_parameters(Names=[config], WithDecryption=True)
        entries = [*read_tables(text, tables_place)]
        sections: dict[str, Mapping[str, Any]] = {}
        for parameter in response["Parameters"]:
            sections |= read_pipeline(str(parameter["Value"]), config_place)
        layer = layer_of_entries(tables_place, entries, content=sections)
        return SettingsLayer(
            origin=config_place,
            content=layer.content,
            origins=layer.origins,
            broken=layer.broken,
        )


def _value(client: Any, name: str) -> str:
    return str(client.get_parameter(Name=name, WithDecryption=True)["Parameter"]["Value"])


def _list_parameters(client: Any, path: str) -> Iterator[tuple[str, str]]:
    """Yield name and text of each parameter below a path, at any depth."""
    pages = client.get_paginator("get_parameters_by_path").paginate(Path=path, Recursive=True, WithDecryption=True)
    for page in pages:
        for parameter in page["Parameters"]:
            yield str(parameter["Name"]), str(parameter["Value"])


def build(options: Options, runtime: Runtime) -> SettingsStore:
    """Build the reader of parameters; no request is sent yet."""
    settings = validated(SsmStoreOptions, options, str(runtime.file), within="settings.stores")
    if settings.form == "published":
        return PublishedParameters(settings.name)
    if settings.form == "tables":
        return TableParameters(settings.name)
    return PipelineText(f"ssm parameter {settings.name}", "ssm", settings.name, _value)


@hookimpl
def register(registry: Registry) -> None:
    """Register the settings store `ssm`."""
    registry.settings_stores.add("ssm", build)
