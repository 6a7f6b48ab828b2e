"""The Glue Schema Registry of AWS, and the form of bytes that goes with it.

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

from lakeward.adapters.aws.error_messages import AS_WHOM, CUT_OFF
from lakeward.adapters.sources.kafka.registries.schemas import Framed
from lakeward.core.errors import ConfigError, LakewardError, SourceError, StoreUnreachable

_VERSION: Final = 3
_PLAIN, _ZLIB = 0, 5
_HEAD: Final = 18
"""The bytes before the body: its version, how it is compressed, and the UUID of a version of a schema."""

_ATTEMPTS: Final = 3
_NOT_FOUND: Final = "EntityNotFoundException"
_LATER: Final = ("InternalServiceException", "OperationTimeoutException", "ThrottlingException")


@dataclass(frozen=True, slots=True)
class GlueRegistry:
    """The registry of a region, as whom and where the AWS command line would reach it."""

    timeout: int

    @property
    def name(self) -> str:
        """One name for all: the ids of AWS are no others' ids."""
        return "aws-glue"

    def split(self, data: bytes) -> Framed | None:
        """Return the id of a schema, and the bytes behind it; None for bytes that begin otherwise."""
        if len(data) < _HEAD or data[0] != _VERSION or data[1] not in (_PLAIN, _ZLIB):
            return None
        body = data[_HEAD:]
        return Framed(str(UUID(bytes=data[2:_HEAD])), lambda: _unpacked(body) if data[1] == _ZLIB else body)

    def fetch(self, id_: str, where: str) -> str:
        """Return the text of a schema of Avro; `where` is the message that needs it."""
        try:
            found = self._client().get_schema_version(SchemaVersionId=id_)
        except CUT_OFF as error:
            raise _away(str(error)) from None
        except ClientError as error:
            raise _in_words(error, id_, where) from None
        except BotoCoreError as error:
            raise _refuses(str(error)) from None
        if found["DataFormat"] != "AVRO":
            raise SourceError(
                f"the schema {id_} of {where} cannot be used",
                found=f"it is of the format {found['DataFormat']}",
                todo="Nothing of this batch was applied. Let the converter write Avro: Protobuf and JSON Schema "
                "are not read.",
            )
        return str(found["SchemaDefinition"])

    def _client(self) -> Any:
        retries = {"mode": "standard", "total_max_attempts": _ATTEMPTS}
        times = {"connect_timeout": self.timeout, "read_timeout": self.timeout}
        return boto3.Session().client("glue", config=Config(retries=retries, user_agent_extra="lakeward", **times))


def _unpacked(body: bytes) -> bytes:
    """Return what was compressed; raises ValueError where it is broken, or where bytes follow it."""
    stream = zlib.decompressobj()
    try:
        found = stream.decompress(body)
    except zlib.error as error:
        raise ValueError(str(error)) from error
    if not stream.eof or stream.unused_data:
        raise ValueError("the compressed bytes have another end")
    return found


def _in_words(error: ClientError, id_: str, where: str) -> LakewardError:
    said = error.response.get("Error", {})
    found = f"Glue says {said.get('Code')}: {said.get('Message')}"
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    if said.get("Code") in _LATER or status >= 500:
        return _away(found)
    if said.get("Code") != _NOT_FOUND:
        return _refuses(found)
    return SourceError(
        f"the Glue Schema Registry has no schema {id_}",
        found=f"it is that of {where}; {found}",
        todo="Nothing of this batch was applied; the next run asks again. Are the region (AWS_DEFAULT_REGION) and "
        "the credentials those of the registry that the connector writes to?",
    )


def _refuses(found: str) -> ConfigError:
    return ConfigError(
        "the Glue Schema Registry cannot be asked",
        found=found,
        todo=f"It takes the permission glue:GetSchemaVersion and a region, as AWS_DEFAULT_REGION. {AS_WHOM}",
    )


def _away(found: str) -> StoreUnreachable:
    return StoreUnreachable(
        "the Glue Schema Registry does not answer",
        found=found,
        todo="Nothing of this batch was applied; the next run reads it again. If that goes on: is the network "
        "there, and AWS_DEFAULT_REGION right?",
    )
