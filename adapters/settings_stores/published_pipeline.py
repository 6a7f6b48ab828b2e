"""Parameters of a published pipeline, read as its own Glue job reads them.

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

_OF_A_TABLE: Final = ("primaryKey", "domain", "partitionCols")
_OF_THE_PIPELINE: Final = ("rawBucket", "rawBucketPrefix", "stageS3BucketName", "warehouses3Path")
_BUCKET: Final = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
"""The name of a bucket (docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html)."""
_TODO: Final = "docs/how-to/aws/settings.md lists what is read of it."


def read_tables(text: str, place: str) -> Iterator[SettingsEntry]:
    """Yield the settings of each table in the tables parameter; a wrong one is a broken entry.

    Raises ConfigError if the parameter is not a JSON object.
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
        raise ConfigError(f"{origin}: the name is not that of a table", todo="It is written as schema.table.")
    texts = _texts(content, _OF_A_TABLE, origin)
    for key in ("primaryKey", "domain"):
        if key not in texts:
            raise ConfigError(f"{origin} lacks the key {key!r}", todo=_TODO)
    domain = texts["domain"]
    if not domain or "." in domain:
        raise ConfigError(f"{origin}: `domain` is not the name of a database", todo="It is one word, as `sports`.")
    keys: dict[str, Any] = {"key": split_columns(texts["primaryKey"], f"{origin}, primaryKey")}
    if "partitionCols" in texts:
        keys["partition_by"] = split_columns(texts["partitionCols"], f"{origin}, partitionCols")
    return f"{domain}.{table}", keys if domain == schema else {**keys, "reads": name}


def read_pipeline(text: str, place: str) -> Mapping[str, Any]:
    """Return the settings sections for the parameter with the buckets; raises ConfigError if it is wrong."""
    texts = _texts(read_object(text, place), _OF_THE_PIPELINE, place)
    sections: dict[str, Any] = {}
    for key in ("rawBucket", "stageS3BucketName"):
        if key in texts and not _BUCKET.fullmatch(texts[key]):
            raise ConfigError(
                f"{place}: {key!r} is not the name of a bucket",
                found=f"it is {texts[key]!r}",
                todo="It is the name alone, without s3:// and without a prefix.",
            )
    if "rawBucket" in texts:
        path = "/".join(part for part in (texts["rawBucket"], texts.get("rawBucketPrefix", "").strip("/")) if part)
        sections["source"] = {"path": f"s3://{path}"}
    if "stageS3BucketName" in texts:
        sections["target"] = {"warehouse": f"s3://{texts['stageS3BucketName']}"}
    return sections


def _texts(content: Any, known: tuple[str, ...], origin: str) -> Mapping[str, str]:
    if not isinstance(content, Mapping):
        raise ConfigError(f"{origin} is no JSON object", todo=_TODO)
    for key, value in content.items():
        if key not in known:
            raise ConfigError(f"{origin} has no key {key!r}", todo=f"{nearest(key, known)} {_TODO}".lstrip())
        if not isinstance(value, str):
            raise ConfigError(f"{origin}: {key!r} must be a text", todo=_TODO)
    return content
