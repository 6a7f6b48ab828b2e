"""Settings in the Parameter Store of Systems Manager: one parameter for a pipeline, or one for each table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from lakeward.adapters.aws.service_clients import client_of, translate_errors
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
    """Parameters of Systems Manager, deciphered where they are secure: TOML, or the same as JSON."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: str = Field(min_length=1, description="The name of the parameter, or what `form` says.")
    form: Literal["pipeline", "tables", "published"] = Field(
        "pipeline",
        description="`pipeline`: the parameter has settings of the whole pipeline. `tables`: `name` is a path, as "
        "`/lakeward/shop`, below which each parameter has the keys of the table that it is called like. "
        "`published`: `name` is that of a stack, whose parameters are `NAME-iceberg-tables` and "
        "`NAME-iceberg-config`.",
    )

    @field_validator("name")
    @classmethod
    def _has_no_slash_behind(cls, value: str) -> str:
        return value.rstrip("/") or value


@dataclass(frozen=True, slots=True)
class TableParameters:
    """A parameter for each table, below a path."""

    path: str

    def read(self) -> SettingsLayer:
        """Return the content of the parameters; without a parameter, a layer without tables and a warning."""
        place = f"ssm path {self.path}"
        with translate_errors(place, _PAGE):
            texts = dict(_below(client_of("ssm"), self.path))
        return layer_of_tables(place, [self._entry(name, text) for name, text in texts.items()])

    def _entry(self, name: str, text: str) -> SettingsEntry:
        """Return the settings in a parameter, for the table that is named after the path."""
        table, place = name.removeprefix(f"{self.path.rstrip('/')}/"), f"ssm parameter {name}"
        try:
            if "/" in table:
                raise ConfigError(
                    f"{place} stands deeper than right below {self.path}",
                    todo="Call it like its table right below the path, or keep what is no table elsewhere.",
                )
            return SettingsEntry(table=table, origin=place, keys=read_settings(text, place))
        except ConfigError as error:
            return SettingsEntry(table=table, origin=place, error=error)


@dataclass(frozen=True, slots=True)
class PublishedParameters:
    """The two parameters of a stack of the published pipeline; the one with the buckets may be missing."""

    stack: str

    def read(self) -> SettingsLayer:
        """Return the tables of one parameter, and the paths of the other."""
        tables, config = (f"{self.stack}-iceberg-{name}" for name in ("tables", "config"))
        place, of_config = f"ssm parameter {tables}", f"ssm parameter {config}"
        with translate_errors(place, _PAGE):
            client = client_of("ssm")
            text = _value(client, tables)
        with translate_errors(of_config, _PAGE):
            answer = client.get_parameters(Names=[config], WithDecryption=True)
        entries = [*read_tables(text, place)]
        sections: dict[str, Mapping[str, Any]] = {}
        for parameter in answer["Parameters"]:
            sections |= read_pipeline(str(parameter["Value"]), of_config)
        layer = layer_of_entries(place, entries, content=sections)
        return SettingsLayer(
            origin=of_config,
            content=layer.content,
            origins=layer.origins,
            broken=layer.broken,
        )


def _value(client: Any, name: str) -> str:
    return str(client.get_parameter(Name=name, WithDecryption=True)["Parameter"]["Value"])


def _below(client: Any, path: str) -> Iterator[tuple[str, str]]:
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
