"""Settings in a control table of DynamoDB: an item for each table, with the result of its last run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from lakeward.adapters.aws.service_clients import client_of, translate_errors
from lakeward.adapters.settings_stores.column_lists import split_columns, split_key
from lakeward.core.errors import ConfigError, LakewardError
from lakeward.core.ports import SettingsStore, TableStatus
from lakeward.core.settings.layers import SettingsEntry, SettingsLayer, layer_of_entries
from lakeward.core.settings.text import read_settings
from lakeward.core.text.numbers import format_count
from lakeward.core.text.suggestions import nearest
from lakeward.plugins import Options, Registry, Runtime, hookimpl
from lakeward.plugins.options import validated

_PAGE: Final = "docs/how-to/aws/settings.md"
_KEY: Final = "table"
_LISTS: Final = {"record_key": "key", "partition_key": "partition_by"}
_STATUS: Final = ("load_status", "job_status", "job_name", "last_run", "error")
"""Attributes with the state of a table, not its settings."""

_KNOWN: Final = (_KEY, "enabled", "settings", *_LISTS, *_STATUS)


class DynamoDbStoreOptions(BaseModel):
    """A control table of DynamoDB, with an item for each table."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: str = Field(min_length=3, description="The name of the table; its partition key is `table`, a string.")
    write_back: bool = Field(
        False,
        description="Whether the end of a run is written into the items of its tables: `load_status`, "
        "`job_status`, `last_run`, and `error` in words.",
    )


@dataclass(frozen=True, slots=True)
class ControlTable:
    """A control table, which is read as a whole."""

    name: str

    def read(self) -> SettingsLayer:
        """Return the settings in the items; other attributes of an item that is not enabled are ignored."""
        with translate_errors(self.place, _PAGE):
            items = [*_scan(client_of("dynamodb"), TableName=self.name, ConsistentRead=True)]
        nameless = [item for item in items if not isinstance(item.get(_KEY), str)]
        if nameless:
            raise ConfigError(
                f"{self.place} has an item without the text `{_KEY}`",
                todo=f"Its partition key must be `{_KEY}`, a string: {_PAGE} shows how it is made.",
            )
        return layer_of_entries(self.place, [self._entry(item) for item in items])

    @property
    def place(self) -> str:
        """Its name in messages."""
        return f"dynamodb table {self.name}"

    def _entry(self, item: Mapping[str, Any]) -> SettingsEntry:
        table, origin = item[_KEY], f"{self.place}, item {item[_KEY]}"
        if "*" in table:
            error = ConfigError(f"{origin} names no one table", todo="Patterns stand in the settings file.")
            return SettingsEntry(table=table, origin=origin, error=error)
        try:
            return SettingsEntry(table=table, origin=origin, keys=_keys(item, origin))
        except ConfigError as error:
            return SettingsEntry(table=table, origin=origin, error=error)


@dataclass(frozen=True, slots=True)
class WrittenControlTable(ControlTable):
    """A control table into which the results of runs are written."""

    def write(self, statuses: Sequence[TableStatus]) -> None:
        """Write results into existing items; an item that was deleted meanwhile is not created again.

        An item that cannot be written does not stop others. Raises the first error, with the number of the others.
        """
        with translate_errors(self.place, _PAGE):
            client = client_of("dynamodb")
            names = {"ProjectionExpression": "#key", "ExpressionAttributeNames": {"#key": _KEY}}
            items = _scan(client, TableName=self.name, ConsistentRead=True, **names)
            spelled = {str(item[_KEY]).lower(): item[_KEY] for item in items}
        known = [(spelled[one.table.lower()], one) for one in statuses if one.table.lower() in spelled]
        errors: list[LakewardError] = []
        for table, status in known:
            try:
                with translate_errors(f"{self.place}, item {table}", _PAGE, "written"):
                    self._update(client, table, status)
            except LakewardError as error:
                errors.append(error)
                if _is_cut_off(error):
                    break
        if errors:
            first, number = errors[0], format_count(len(errors) - 1, "other item", "other items")
            more = f"{number} failed too" if errors[1:] else None
            raise type(first)(first.what, found="; ".join(filter(None, (first.found, more))), todo=first.todo)

    def _update(self, client: Any, table: str, status: TableStatus) -> None:
        attributes = {
            "load_status": "delta" if status.is_loaded else "full",
            "job_status": "succeeded" if status.error is None else "failed",
            "last_run": datetime.fromtimestamp(status.at // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            **({} if status.error is None else {"error": status.error}),
        }
        changes = "SET " + ", ".join(f"#{name} = :{name}" for name in attributes)
        names = {f"#{name}": name for name in (*attributes, "error", _KEY)}
        try:
            client.update_item(
                TableName=self.name,
                Key={_KEY: {"S": table}},
                UpdateExpression=changes if status.error is not None else f"{changes} REMOVE #error",
                ConditionExpression=f"attribute_exists(#{_KEY})",
                ExpressionAttributeNames=names,
                ExpressionAttributeValues={f":{name}": {"S": value} for name, value in attributes.items()},
            )
        except client.exceptions.ConditionalCheckFailedException:
            return


def _is_cut_off(error: LakewardError) -> bool:
    """Return True if there was no response: each further item would wait as long."""
    from lakeward.adapters.aws.error_messages import CUT_OFF  # noqa: PLC0415  # imports boto3

    return isinstance(error.__cause__, CUT_OFF)


def _scan(client: Any, **arguments: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the items of a table, with Python values."""
    from boto3.dynamodb.types import TypeDeserializer  # noqa: PLC0415  # boto3 is optional

    read = TypeDeserializer().deserialize
    for page in client.get_paginator("scan").paginate(**arguments):
        for item in page["Items"]:
            yield {name: read(value) for name, value in item.items()}


def _keys(item: Mapping[str, Any], origin: str) -> Mapping[str, Any]:
    """Return the settings of a table; raises ConfigError for attributes that an item cannot have."""
    enabled = item.get("enabled", True)
    if not isinstance(enabled, bool):
        raise ConfigError(f"{origin}: `enabled` is neither true nor false", todo="Make it a boolean (BOOL).")
    if not enabled:
        return {"skip": True}
    for name in item:
        if name not in _KNOWN:
            raise ConfigError(
                f"{origin} has no attribute {name!r}",
                todo=f"{nearest(name, _KNOWN)} Keys of the table stand in the map `settings`.".lstrip(),
            )
    keys: dict[str, Any] = {}
    for name, key in _LISTS.items():
        if name in item:
            keys[key] = _listed(item[name], name, origin)
    keys |= _settings(item.get("settings", {}), origin)
    return {**keys, "skip": False} if "enabled" in item else keys


def _listed(value: Any, name: str, origin: str) -> list[str]:
    if not isinstance(value, str):
        raise ConfigError(f"{origin}: `{name}` must be a text", todo="Separate its columns by commas: `id,region`.")
    split = split_key if _LISTS[name] == "key" else split_columns
    return split(value, f"{origin}, {name}")


def _settings(value: Any, origin: str) -> Mapping[str, Any]:
    if isinstance(value, str):
        return read_settings(value, f"{origin}: `settings`")
    if not isinstance(value, Mapping):
        raise ConfigError(f"{origin}: `settings` is no map", todo="Make it a map (M), or a text of TOML or JSON.")
    return {name: _plain(inner, f"{origin}: `settings.{name}`") for name, inner in value.items()}


def _plain(value: Any, where: str) -> Any:
    """Return a value as TOML has it: whole numbers as integers. TOML has no sets or bytes."""
    if isinstance(value, Mapping):
        return {name: _plain(inner, where) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner, where) for inner in value]
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if not isinstance(value, str | bool):
        raise ConfigError(f"{where} is neither text, number, list nor map", todo="Take a list (L) for a set.")
    return value


def build(options: Options, runtime: Runtime) -> SettingsStore:
    """Build the reader of a control table, which also writes if configured; no request is sent yet."""
    settings = validated(DynamoDbStoreOptions, options, str(runtime.file), within="settings.stores")
    return (WrittenControlTable if settings.write_back else ControlTable)(settings.name)


@hookimpl
def register(registry: Registry) -> None:
    """Register the settings store `dynamodb`."""
    registry.settings_stores.add("dynamodb", build)
