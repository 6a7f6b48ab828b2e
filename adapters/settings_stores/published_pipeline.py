"""Translate the parameters of a published pipeline, as its own Glue job reads them, into settings.

The pipeline is "Automate replication of relational sources into a transactional data lake with Apache Iceberg and
AWS Glue" (aws.amazon.com/blogs/big-data). It has two parameters: `<stack>-iceberg-tables`, with an object for each
`schema.table`, and `<stack>-iceberg-config`, with the buckets. docs/how-to/aws/settings.md describes how each key
is used.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from lakeward.adapters.settings_stores.column_lists import split_columns
from lakeward.core.errors import ConfigError
from lakeward.core.settings.layers import SettingsEntry
from lakeward.core.settings.text import read_object
from lakeward.core.text.suggestions import nearest

_TABLE_KEYS: Final = ("primaryKey", "domain", "partitionCols")
_PIPELINE_KEYS: Final = ("rawBucket", "rawBucketPrefix", "stageS3BucketName", "warehouses3Path")
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
"""The name of a bucket (docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html)."""
_TODO: Final = "docs/how-to/aws/settings.md lists its keys."


def read_tables(text: str, place: str) -> Iterator[SettingsEntry]:
    """Yield the settings of each table in the text of the tables parameter; an invalid one is a broken entry.

    `place` is the place of the text in messages. Raises ConfigError if the text is not a JSON object.
    """
    for name, content in read_object(text, place).items():
        origin = f"{place}, {name}"
        try:
            table, keys = _table(name, content, origin)
        except ConfigError as error:
            yield SettingsEntry(table=name, origin=origin, error=error)
        else:
            yield SettingsEntry(table=table, origin=origin, keys=keys)


def _table(name: str, content: Any, origin: str) -> tuple[str, Mapping[str, Any]]:
    """Return the name of a table in the lake and its settings."""
    schema, dot, table = name.partition(".")
    if not (schema and dot and table) or "." in table:
        raise ConfigError(f"{origin}: the name is not that of a table", todo="Write it as schema.table.")
    texts = _texts(content, _TABLE_KEYS, origin)
    for key in ("primaryKey", "domain"):
        if key not in texts:
            raise ConfigError(f"{origin} lacks the key {key!r}", todo=f"Add it. {_TODO}")
    domain = texts["domain"]
    if not domain or "." in domain:
        raise ConfigError(
            f"{origin}: `domain` is not the name of a database",
            todo="Write a name without a dot, such as `sports`.",
        )
    keys: dict[str, Any] = {"key": split_columns(texts["primaryKey"], f"{origin}, primaryKey")}
    if "partitionCols" in texts:
        keys["partition_by"] = split_columns(texts["partitionCols"], f"{origin}, partitionCols")
    return f"{domain}.{table}", keys if domain == schema else {**keys, "reads": name}


def read_pipeline(text: str, place: str) -> Mapping[str, Any]:
    """Return the settings sections for the text of the parameter with the buckets.

    `place` is the place of the text in messages. Raises ConfigError for an unknown key or an invalid bucket.
    """
    texts = _texts(read_object(text, place), _PIPELINE_KEYS, place)
    sections: dict[str, Any] = {}
    for key in ("rawBucket", "stageS3BucketName"):
        if key in texts and not _BUCKET.fullmatch(texts[key]):
            raise ConfigError(
                f"{place}: {key!r} is not the name of a bucket",
                found=f"it is {texts[key]!r}",
                todo="Write only the name of the bucket, without s3:// and without a prefix.",
            )
    if "rawBucket" in texts:
        path = "/".join(part for part in (texts["rawBucket"], texts.get("rawBucketPrefix", "").strip("/")) if part)
        sections["source"] = {"path": f"s3://{path}"}
    if "stageS3BucketName" in texts:
        sections["target"] = {"warehouse": f"s3://{texts['stageS3BucketName']}"}
    return sections


def _texts(content: Any, keys: tuple[str, ...], origin: str) -> Mapping[str, str]:
    """Return an object unchanged; raises ConfigError if it has other keys, or a value that is not a text."""
    if not isinstance(content, Mapping):
        raise ConfigError(f"{origin} is no JSON object", todo=f"Write an object. {_TODO}")
    for key, value in content.items():
        if key not in keys:
            raise ConfigError(
                f"{origin}: there is no key {key!r}", todo=f"{nearest(key, keys) or 'Remove it.'} {_TODO}"
            )
        if not isinstance(value, str):
            raise ConfigError(f"{origin}: {key!r} must be a text", todo=f"Write a text. {_TODO}")
    return content
