"""Publish notices to a topic of SNS."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from lakeward.adapters.aws.service_clients import translate_errors
from lakeward.core.reporting.notices import RunNotice

_PAGE: Final = "docs/reference/notices.md"
_SUBJECT: Final = 99
"""The largest number of characters of a subject: ASCII and shorter than 100 (reference of `Publish`)."""

_PATIENCE: Final = 10
"""Seconds in which SNS must answer: a process that follows waits for it."""
_ATTEMPTS: Final = 3


@dataclass(frozen=True, slots=True)
class SnsNotifier:
    """Publishes each notice as text for people. The name of the pipeline is an attribute, for filters.

    In a FIFO topic the notices of a pipeline are a group.
    """

    topic: str
    region: str
    endpoint: str | None = None

    def send(self, notice: RunNotice) -> None:
        """Publish a notice; raises StoreUnreachable if SNS does not answer, ConfigError if it refuses."""
        what = f"the topic {self.topic}"
        with translate_errors(what, _PAGE, "told"), closing(_client(self.region, self.endpoint)) as client:
            client.publish(
                TopicArn=self.topic,
                Subject=notice.subject[:_SUBJECT],
                Message=notice.text,
                MessageAttributes={"pipeline": {"DataType": "String", "StringValue": notice.pipeline}},
                **self._of_fifo(notice),
            )

    def _of_fifo(self, notice: RunNotice) -> dict[str, Any]:
        if not self.topic.endswith(".fifo"):
            return {}
        digest = sha256(f"{notice.pipeline} {notice.run} {notice.at}".encode()).hexdigest()
        return {"MessageGroupId": notice.pipeline[:128], "MessageDeduplicationId": digest}


def _client(region: str, endpoint: str | None) -> Any:
    import boto3  # noqa: PLC0415  # called in `translate_errors`, which checks that it is installed
    from botocore.config import Config  # noqa: PLC0415

    config = Config(
        connect_timeout=_PATIENCE,
        read_timeout=_PATIENCE,
        retries={"mode": "standard", "total_max_attempts": _ATTEMPTS},
        user_agent_extra="lakeward",
    )
    return boto3.Session().client("sns", region_name=region, endpoint_url=endpoint, config=config)
