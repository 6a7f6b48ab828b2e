"""Settings in a control table of DynamoDB: an item for each table, optionally with the result of its last run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field

from lakeward.adapters.aws.service_clients import create_client, explain_errors
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
_LIST_ATTRIBUTES: Final = {"record_key": "key", "partition_key": "partition_by"}
"""Attributes with a list of columns, and the settings that they are."""

_STATUS_ATTRIBUTES: Final = ("load_status", "job_status", "job_name", "last_run", "error")
"""Attributes with the state of a table, not its settings."""

_ATTRIBUTES: Final = (_KEY, "enabled", "settings", *_LIST_ATTRIBUTES, *_STATUS_ATTRIBUTES)


class DynamoDbStoreOptions(BaseModel):
    """A control table of DynamoDB, with an item for each table."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: str = Field(min_length=3, description="The name of the table; its partition key is `table`, a string.")
    write_back: bool = Field(
        False,
        description="Whether a run writes its result into the items of its tables: `load_status`, `job_status`, "
        "`last_run`, and the text of an `error`.",
    )


@dataclass(frozen=True, slots=True)
class ControlTable:
    """A control table of this name, which is read as a whole."""

    name: str

    def read(self) -> SettingsLayer:
        """Return the settings in the items. An item that is not enabled sets only `skip`.

        Raises ConfigError if the control table does not exist, has another key or may not be read, and
        StoreUnreachable if DynamoDB does not answer. An error in an item is that of its table.
        """
        with explain_errors(self.place, _PAGE):
            items = [*_scan(create_client("dynamodb"), TableName=self.name, ConsistentRead=True)]
        if not all(isinstance(item.get(_KEY), str) for item in items):
            raise ConfigError(
                f"{self.place} has an item without the text `{_KEY}`",
                todo=f"Create the control table with the partition key `{_KEY}`, a string, as {_PAGE} shows.",
            )
        return layer_of_entries(self.place, [self._entry(item) for item in items])

    @property
    def place(self) -> str:
        """The name of the control table in messages."""
        return f"dynamodb table {self.name}"

    def _entry(self, item: Mapping[str, Any]) -> SettingsEntry:
        table, origin = item[_KEY], f"{self.place}, item {item[_KEY]}"
        if "*" in table:
            error = ConfigError(
                f"{origin} is a pattern, not the name of a table", todo="Write patterns into the settings file."
            )
            return SettingsEntry(table=table, origin=origin, error=error)
        try:
            return SettingsEntry(table=table, origin=origin, keys=_keys(item, origin))
        except ConfigError as error:
            return SettingsEntry(table=table, origin=origin, error=error)


@dataclass(frozen=True, slots=True)
class WrittenControlTable(ControlTable):
    """A control table into which runs write their results."""

    def write(self, statuses: Sequence[TableStatus]) -> None:
        """Write results into existing items. An item that was deleted meanwhile is not created again.

        An item that cannot be written does not stop the others. Raises the first error, with the number of further
        ones.
        """
        with explain_errors(self.place, _PAGE):
            client = create_client("dynamodb")
            projection = {"ProjectionExpression": "#key", "ExpressionAttributeNames": {"#key": _KEY}}
            items = _scan(client, TableName=self.name, ConsistentRead=True, **projection)
            names_by_table = {str(item[_KEY]).lower(): item[_KEY] for item in items}
        errors: list[LakewardError] = []
        for status in statuses:
            table = names_by_table.get(status.table.lower())
            if table is None:
                continue
            try:
                with explain_errors(f"{self.place}, item {table}", _PAGE, "written"):
                    self._update(client, table, status)
            except LakewardError as error:
                errors.append(error)
                if _is_without_response(error):
                    break
        if errors:
            first, others = errors[0], format_count(len(errors) - 1, "other item", "other items")
            failed_too = f"{others} failed too" if errors[1:] else None
            found = "; ".join(filter(None, (first.found, failed_too)))
            raise type(first)(first.what, found=found, todo=first.todo)

    def _update(self, client: Any, table: str, status: TableStatus) -> None:
        """Write a result into the item of a table; do nothing if there is no such item."""
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


def _is_without_response(error: LakewardError) -> bool:
    """Return True if DynamoDB sent no response: the request for each further item would wait as long."""
    from lakeward.adapters.aws.error_messages import CONNECTION_ERRORS  # noqa: PLC0415  # imports boto3

    return isinstance(error.__cause__, CONNECTION_ERRORS)


def _scan(client: Any, **arguments: Any) -> Iterator[Mapping[str, Any]]:
    """Yield the items of a table, with Python values."""
    from boto3.dynamodb.types import TypeDeserializer  # noqa: PLC0415  # boto3 is optional

    deserialize = TypeDeserializer().deserialize
    for page in client.get_paginator("scan").paginate(**arguments):
        for item in page["Items"]:
            yield {name: deserialize(value) for name, value in item.items()}


def _keys(item: Mapping[str, Any], origin: str) -> Mapping[str, Any]:
    """Return the settings of a table; raises ConfigError for attributes that an item cannot have."""
    enabled = item.get("enabled", True)
    if not isinstance(enabled, bool):
        raise ConfigError(
            f"{origin}: `enabled` is neither true nor false",
            todo="Make it a boolean (BOOL).",
        )
    if not enabled:
        return {"skip": True}
    for name in item:
        if name not in _ATTRIBUTES:
            raise ConfigError(
                f"{origin}: there is no attribute {name!r}",
                todo=f"{nearest(name, _ATTRIBUTES)} Write keys of the table into the map `settings`.".lstrip(),
            )
    keys: dict[str, Any] = {}
    for name, key in _LIST_ATTRIBUTES.items():
        if name in item:
            keys[key] = _columns(item[name], name, origin)
    keys |= _settings(item.get("settings", {}), origin)
    return {**keys, "skip": False} if "enabled" in item else keys


def _columns(value: Any, name: str, origin: str) -> list[str]:
    if not isinstance(value, str):
        raise ConfigError(f"{origin}: `{name}` must be a text", todo="Separate its columns by commas: `id,region`.")
    split = split_key if _LIST_ATTRIBUTES[name] == "key" else split_columns
    return split(value, f"{origin}, {name}")


def _settings(value: Any, origin: str) -> Mapping[str, Any]:
    if isinstance(value, str):
        return read_settings(value, f"{origin}: `settings`")
    if not isinstance(value, Mapping):
        raise ConfigError(
            f"{origin}: `settings` is neither a map nor a text",
            todo="Make it a map (M), or a text of TOML or JSON.",
        )
    return {name: _plain(inner, f"{origin}: `settings.{name}`") for name, inner in value.items()}


def _plain(value: Any, where: str) -> Any:
    """Return a value as TOML has it, with whole numbers as integers; raises ConfigError for sets and bytes."""
    if isinstance(value, Mapping):
        return {name: _plain(inner, where) for name, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner, where) for inner in value]
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if not isinstance(value, str | bool):
        raise ConfigError(
            f"{where} is neither text, number, boolean, list nor map", todo="Write a list (L) instead of a set."
        )
    return value


def build(options: Options, runtime: Runtime) -> SettingsStore:
    """Build the reader of a control table, which also writes if configured; no request is sent yet."""
    settings = validated(DynamoDbStoreOptions, options, str(runtime.file), within="settings.stores")
    return (WrittenControlTable if settings.write_back else ControlTable)(settings.name)


@hookimpl
def register(registry: Registry) -> None:
    """Register the settings store `dynamodb`."""
    registry.settings_stores.add("dynamodb", build)
