"""A queue of SQS, standard or FIFO, to which S3 sends its events."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field

from lakeward.adapters.queues.sqs.queue import SqsQueue
from lakeward.adapters.queues.visibility import Visibility
from lakeward.core.text.durations import seconds_of
from lakeward.plugins import Options, Registry, Runtime, hookimpl
from lakeward.plugins.options import validated

_AWS_DOMAINS: Final = (
    "amazonaws.com",
    "amazonaws.com.cn",
    "amazonaws.eu",
    "api.amazonwebservices.com.cn",
    "api.amazonwebservices.eu",
    "api.aws",
    "api.aws.hci.ic.gov",
    "api.aws.ic.gov",
    "api.aws.scloud",
    "api.cloud-aws.adc-e.uk",
    "c2s.ic.gov",
    "cloud.adc-e.uk",
    "csp.hci.ic.gov",
    "sc2s.sgov.gov",
)
"""The domains of AWS endpoints in all partitions (`partitions.json` of botocore)."""


class SqsOptions(BaseModel):
    """A queue of SQS, standard or FIFO, to which S3 sends events of new objects; see docs/reference/queues.md."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    url: str = Field(
        pattern=r"^https?://[^\s/]+/\S+$",
        description="The URL of the queue, as `https://sqs.eu-central-1.amazonaws.com/123456789012/landing`.",
    )
    region: str | None = Field(
        None,
        min_length=1,
        description="The region of the queue. The default is that of the environment or the profile.",
    )
    endpoint: str | None = Field(
        None,
        pattern=r"^https?://\S+$",
        description="The URL of the SQS server. The default is `AWS_ENDPOINT_URL_SQS`, or the server of AWS.",
    )
    wait: int = Field(
        1,
        ge=0,
        le=20,
        description="The seconds for which SQS waits for a message if it has none. With `0` SQS asks only "
        "some of its servers, and may return nothing although there is a message.",
    )
    visibility: Visibility = Field(
        "5m",
        description="How long a received message is hidden from other processes, from `1m` to `12h`. A "
        "process that works on the table extends this time; after a crash the message is shown again at its end.",
    )

    @property
    def is_in_aws(self) -> bool:
        """Whether AWS serves the queue, at the host of its URL and without another endpoint in the settings."""
        host = urlsplit(self.url).hostname or ""
        return self.endpoint is None and host.endswith(tuple(f".{domain}" for domain in _AWS_DOMAINS))


def build(options: Options, runtime: Runtime) -> SqsQueue:
    """Build the queue; no request is sent yet."""
    from lakeward.adapters.queues.sqs.client import create_sqs_client  # noqa: PLC0415  # boto3 is optional

    queue_options = {name: value for name, value in options.items() if name not in ("tables", "tables_at")}
    settings = validated(SqsOptions, queue_options, str(runtime.file), within="queue")
    return SqsQueue(
        client=create_sqs_client(settings.region, settings.endpoint, settings.wait),
        url=settings.url,
        tables=options["tables"],
        tables_at=options["tables_at"],
        now=runtime.now,
        visibility=seconds_of(settings.visibility),
        wait=settings.wait,
    )


@hookimpl
def register(registry: Registry) -> None:
    """Register the queue `sqs`."""
    registry.queues.add("sqs", build)
