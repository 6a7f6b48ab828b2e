"""JSON texts that Kafka Connect's converter wrapped with their schema (`schemas.enable=true`)."""

from __future__ import annotations

from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

_SCHEMA: Final = b'{"schema":'
_PAYLOAD: Final = b',"payload":'
"""The bytes before the schema and before the payload of a text."""


def schema_text(text: bytes) -> str:
    """Return the schema of a text; an empty one if it is not wrapped, or not UTF-8."""
    end = text.find(_PAYLOAD)
    if end < 0 or not text.startswith(_SCHEMA):
        return ""
    try:
        return text[len(_SCHEMA) : end].decode()
    except UnicodeDecodeError:
        return ""


def first_schema(texts: pa.Array) -> str:
    """Return the schema of the first text that is not NULL, as `schema_text` does."""
    samples = texts.drop_null()[:1].to_pylist()
    return schema_text(samples[0]) if samples else ""


def have_schema(texts: pa.Array, schema: str) -> bool:
    """Return whether all texts (binary) are wrapped with this schema, without those that are NULL."""
    is_alike = pc.and_(pc.starts_with(texts, _head(schema)), pc.ends_with(texts, b"}"))
    return bool(pc.all(is_alike).as_py())


def payloads(texts: pa.Array, schema: str) -> pa.Array | None:
    """Return the payloads of texts (binary) with this schema, as they are written; None if one has another schema.

    A payload that is not the last part of its text is returned with what follows it, which is no JSON.
    """
    return pc.binary_slice(texts, len(_head(schema)), -1) if have_schema(texts, schema) else None


def _head(schema: str) -> bytes:
    return _SCHEMA + schema.encode() + _PAYLOAD
