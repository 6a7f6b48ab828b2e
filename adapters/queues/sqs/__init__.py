"""A queue of SQS, standard or FIFO, to which S3 sends its events."""

from __future__ import annotations

from typing import Final
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, Field

from lakeward.adapters.queues.sqs.queue import SqsQueue
from lakeward.adapters.queues.visibility import Visibility, seconds_of
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
    """A queue of SQS, standard or FIFO, to which S3 writes what came; see docs/reference/queues.md."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    url: str = Field(
        pattern=r"^https?://[^\s/]+/\S+$",
        description="The URL of the queue, as `https://sqs.eu-central-1.amazonaws.com/123456789012/landing`.",
    )
    region: str | None = Field(
        None,
        min_length=1,
        description="Its region, where it is not the one that the environment or the profile names.",
    )
    endpoint: str | None = Field(
        None,
        pattern=r"^https?://\S+$",
        description="Where SQS is reached, where it is not that of AWS, or `AWS_ENDPOINT_URL_SQS`.",
    )
    wait: int = Field(
        1,
        ge=0,
        le=20,
        description="How many seconds SQS waits for a message where there is none. `0` asks some of its servers "
        "alone, and may find nothing where there is something.",
    )
    visibility: Visibility = Field(
        "5m",
        description="How long a message is hidden from others that a process received which crashed, from `1m` to "
        "`12h`. One that lives hides it for as long as it works on the table.",
    )

    @property
    def is_in_aws(self) -> bool:
        """Whether AWS serves the queue, at the host of its URL and without another endpoint in the settings."""
        host = urlsplit(self.url).hostname or ""
        return self.endpoint is None and host.endswith(tuple(f".{domain}" for domain in _AWS_DOMAINS))


def build(options: Options, runtime: Runtime) -> SqsQueue:
    """Build the queue; no request is sent yet."""
    from lakeward.adapters.queues.sqs.access import find_client  # noqa: PLC0415  # boto3 is optional

    own = {name: value for name, value in options.items() if name not in ("tables", "tables_at")}
    settings = validated(SqsOptions, own, str(runtime.file), within="queue")
    return SqsQueue(
        client=find_client(settings.region, settings.endpoint, settings.wait),
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
