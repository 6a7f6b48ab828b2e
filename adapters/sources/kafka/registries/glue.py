"""The Glue Schema Registry of AWS, and its wire format.

github.com/awslabs/aws-glue-schema-registry (`AWSSchemaRegistryConstants`) for the bytes, and
docs.aws.amazon.com/glue/latest/webapi/API_GetSchemaVersion.html
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import boto3
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError

from lakeward.adapters.aws.error_messages import CONNECTION_ERRORS, CREDENTIALS_HINT
from lakeward.adapters.sources.kafka.registries.schemas import Framed
from lakeward.core.errors import ConfigError, LakewardError, SourceError, StoreUnreachable

_VERSION: Final = 3
_PLAIN, _ZLIB = 0, 5
_HEAD: Final = 18
"""The bytes before the body: the version of the format, the compression, and the UUID of a schema version."""

_ATTEMPTS: Final = 3
_NOT_FOUND: Final = "EntityNotFoundException"
_LATER: Final = ("InternalServiceException", "OperationTimeoutException", "ThrottlingException")


@dataclass(frozen=True, slots=True)
class GlueRegistry:
    """The registry of a region, with the credentials and region that the AWS command line would use."""

    timeout: int

    @property
    def name(self) -> str:
        """The name of all regions together, because the ids of AWS are unique."""
        return "aws-glue"

    @property
    def head(self) -> int:
        """The length of the version, the compression and the id."""
        return _HEAD

    def split(self, data: bytes) -> Framed | None:
        """Return the id of a schema and the bytes after it, or None for bytes that begin otherwise."""
        if len(data) < _HEAD or data[0] != _VERSION or data[1] not in (_PLAIN, _ZLIB):
            return None
        body, is_packed = data[_HEAD:], data[1] == _ZLIB
        return Framed(
            str(UUID(bytes=data[2:_HEAD])),
            lambda: _unpacked(body) if is_packed else body,
            is_packed,
        )

    def fetch(self, id_: str, message_label: str) -> str:
        """Return the text of an Avro schema; `message_label` names the message in errors."""
        try:
            version = self._client().get_schema_version(SchemaVersionId=id_)
        except CONNECTION_ERRORS as error:
            raise _unreachable_error(str(error)) from None
        except ClientError as error:
            raise _response_error(error, id_, message_label) from None
        except BotoCoreError as error:
            raise _refused_error(str(error)) from None
        if version["DataFormat"] != "AVRO":
            raise SourceError(
                f"the schema {id_} of {message_label} cannot be used",
                found=f"it is of the format {version['DataFormat']}",
                todo="Nothing of this batch was applied. Let the converter write Avro: Protobuf and JSON Schema "
                "are not read.",
            )
        return str(version["SchemaDefinition"])

    def _client(self) -> Any:
        retries = {"mode": "standard", "total_max_attempts": _ATTEMPTS}
        times = {"connect_timeout": self.timeout, "read_timeout": self.timeout}
        return boto3.Session().client("glue", config=Config(retries=retries, user_agent_extra="lakeward", **times))


def _unpacked(body: bytes) -> bytes:
    """Return decompressed bytes; raises ValueError for broken ones, and where bytes follow the compressed data."""
    stream = zlib.decompressobj()
    try:
        data = stream.decompress(body)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not stream.eof or stream.unused_data:
        raise ValueError("the compressed bytes have another end")
    return data


def _response_error(error: ClientError, id_: str, message_label: str) -> LakewardError:
    error_details = error.response.get("Error", {})
    message = f"Glue says {error_details.get('Code')}: {error_details.get('Message')}"
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if error_details.get("Code") in _LATER or status >= 500:
        return _unreachable_error(message)
    if error_details.get("Code") != _NOT_FOUND:
        return _refused_error(message)
    return SourceError(
        f"the Glue Schema Registry has no schema {id_}",
        found=f"it is that of {message_label}; {message}",
        todo="Nothing of this batch was applied; the next run tries again. Are the region (AWS_DEFAULT_REGION) and "
        "the credentials those of the registry that the connector writes to?",
    )


def _refused_error(reason: str) -> ConfigError:
    return ConfigError(
        "the Glue Schema Registry cannot be used",
        found=reason,
        todo="Requests need the permission glue:GetSchemaVersion and a region, as in AWS_DEFAULT_REGION. "
        f"{CREDENTIALS_HINT}",
    )


def _unreachable_error(reason: str) -> StoreUnreachable:
    return StoreUnreachable(
        "the Glue Schema Registry does not answer",
        found=reason,
        todo="Nothing of this batch was applied; the next run reads it again. If the error "
        "repeats, check the network and AWS_DEFAULT_REGION.",
    )
