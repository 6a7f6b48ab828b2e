"""Publish notices to a topic of SNS."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, Final

from lakeward.adapters.aws.service_clients import create_client, explain_errors
from lakeward.core.reporting.notices import RunNotice

_PAGE: Final = "docs/reference/notices.md"
_MAX_SUBJECT: Final = 99
"""The largest number of characters of a subject, which must be shorter than 100 (API reference of `Publish`)."""

_MAX_GROUP: Final = 128
"""The largest number of characters of a message group (the same)."""

_TIMEOUT: Final = 10
"""Seconds in which SNS must answer: a process that follows waits for it."""


@dataclass(frozen=True, slots=True)
class SnsNotifier:
    """Publishes each notice to a topic, as text for people.

    The name of the pipeline is an attribute of the message, for filters. In a FIFO topic the notices of a pipeline
    are a message group. `topic` is an ARN. Without `endpoint` (a URL) it is the configured one.
    """

    topic: str
    region: str
    endpoint: str | None = None

    def send(self, notice: RunNotice) -> None:
        """Publish a notice; raises StoreUnreachable if SNS does not answer, ConfigError if it refuses."""
        what = f"the topic {self.topic}"
        with explain_errors(what, _PAGE, "published to"), closing(self._create_client()) as client:
            client.publish(
                TopicArn=self.topic,
                Subject=notice.subject[:_MAX_SUBJECT],
                Message=notice.text,
                MessageAttributes={"pipeline": {"DataType": "String", "StringValue": notice.pipeline}},
                **self._fifo_arguments(notice),
            )

    def _fifo_arguments(self, notice: RunNotice) -> dict[str, Any]:
        if not self.topic.endswith(".fifo"):
            return {}
        digest = sha256(f"{notice.pipeline} {notice.run} {notice.at}".encode()).hexdigest()
        return {"MessageGroupId": notice.pipeline[:_MAX_GROUP], "MessageDeduplicationId": digest}

    def _create_client(self) -> Any:
        return create_client(
            "sns", self.region, endpoint=self.endpoint, connect_timeout=_TIMEOUT, read_timeout=_TIMEOUT
        )
