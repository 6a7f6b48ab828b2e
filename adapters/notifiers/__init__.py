"""Adapters of the port `Notifier`: the log, a topic of SNS, a webhook."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from lakeward.adapters.notifiers.log import LogNotifier
from lakeward.adapters.notifiers.webhook import Webhook
from lakeward.core.ports import Notifier
from lakeward.core.settings.secrets import SecretName
from lakeward.plugins import Options, Registry, Runtime, hookimpl
from lakeward.plugins.options import NamedSecret, validated


def _refuse_url(name: SecretName) -> SecretName:
    """Refuse a URL, which looks like a secret with the name `//…` of the kind `https`."""
    if name.kind in ("http", "https"):
        raise ValueError('must not be the URL itself: name the secret that has it, as `{ env = "NAME" }`')
    return name


class LogOptions(BaseModel):
    """A line of the log, with the level `warning`; it has no keys of its own."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class SnsOptions(BaseModel):
    """A topic of SNS, whose subscribers get mail, messages in a queue, or calls of a URL."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    topic: str = Field(
        pattern=r"^arn:aws[\w-]*:sns:[\w-]+:\d{12}:[\w-]+(\.fifo)?$",
        description="The ARN of the topic, as `arn:aws:sns:eu-central-1:123456789012:data-team`.",
    )
    region: str | None = Field(
        None, min_length=1, description="The region of the server. The default is that of the ARN."
    )
    endpoint: str | None = Field(
        None,
        pattern=r"^https?://\S+$",
        description="The URL of the SNS server. The default is `AWS_ENDPOINT_URL_SNS`, or the server of AWS.",
    )


class WebhookOptions(BaseModel):
    """A URL that accepts JSON by POST: a webhook of Slack or Mattermost, or one of your own."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    url: Annotated[NamedSecret, AfterValidator(_refuse_url)] = Field(
        description='The secret that has the URL, as `{ env = "LAKEWARD_WEBHOOK" }`: everybody who knows the '
        "URL can post there, so the settings never have it. The URL begins with https:// or http://."
    )
    timeout: float = Field(
        10.0, gt=0, le=60, strict=False, description="Seconds in which the server must answer, at most 60."
    )


def build_log(options: Options, runtime: Runtime) -> Notifier:
    """Build the notifier that writes to the log."""
    validated(LogOptions, options, str(runtime.file), within="notify")
    return LogNotifier()


def build_sns(options: Options, runtime: Runtime) -> Notifier:
    """Build the notifier that publishes to SNS; no request is sent yet."""
    from lakeward.adapters.notifiers.sns import SnsNotifier  # noqa: PLC0415  # boto3 is optional

    settings = validated(SnsOptions, options, str(runtime.file), within="notify")
    return SnsNotifier(settings.topic, settings.region or settings.topic.split(":")[3], settings.endpoint)


def build_webhook(options: Options, runtime: Runtime) -> Notifier:
    """Build the notifier that posts to a URL; the URL is read for each notice."""
    settings = validated(WebhookOptions, options, str(runtime.file), within="notify")
    return Webhook(settings.url, runtime.secret, settings.timeout)


@hookimpl
def register(registry: Registry) -> None:
    """Register the notifiers `log`, `sns` and `webhook`."""
    registry.notifiers.add("log", build_log)
    registry.notifiers.add("sns", build_sns)
    registry.notifiers.add("webhook", build_webhook)
