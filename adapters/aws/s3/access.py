"""Access to S3, configured once by the usual means of AWS and shared by all readers and writers.

Endpoint, region, credentials and addressing come from the environment (`AWS_*`) and from the profile, as for the
AWS command line (docs.aws.amazon.com/sdkref/latest/guide/settings-reference.html). The settings of lakeward have
none of these.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from lakeward.adapters.aws.service_clients import require_boto3
from lakeward.core.errors import ConfigError

_URL: Final = re.compile(r"s3[an]?://(?P<bucket>[a-z0-9][a-z0-9.-]{1,61}[a-z0-9])(?P<key>/.*)?")
_SCHEME: Final = re.compile(r"[a-z][a-z0-9+.-]*://", re.IGNORECASE)
_CONNECT_TIMEOUT: Final = 10
"""Seconds in which a connection must be established."""

JARS: Final = "s3"
"""The group of jars that Spark needs for S3: S3A of Hadoop, and the parts of the AWS SDK that S3A and Iceberg
use.
"""


def is_url(path: str) -> bool:
    """Return whether a path is in a bucket.

    >>> is_url("s3://shop/landing"), is_url("landing/")
    (True, False)
    """
    return path.lower().startswith(("s3://", "s3a://", "s3n://"))


def refuse_other_scheme(path: str, key: str) -> None:
    """Raise ConfigError for a path with a scheme that lakeward does not read; `key` is the settings key."""
    if _SCHEME.match(path) and not is_url(path) and not path.startswith("file://"):
        raise ConfigError(
            f"{path} is neither a folder nor in S3",
            todo=f"Set `{key}` to a path or to s3://bucket/prefix. Mount any other storage as a folder.",
        )


def normal_url(url: str) -> str:
    """Return a URL in normal form; raises ConfigError for a URL that S3 and Hadoop would read differently.

    >>> normal_url("s3a://shop/landing//")
    's3://shop/landing'
    """
    match = _URL.fullmatch(url)
    key = (match["key"] or "").strip("/") if match else ""
    parts = key.split("/") if key else []
    if match is None or not all(map(_is_plain, parts)):
        raise ConfigError(
            f"{url} is no URL of a bucket",
            todo="Write it as s3://bucket/prefix, without `//`, `.`, `..` or any of \\ ? # * [ ] { } in the "
            "prefix.",
        )
    return "/".join([f"s3://{match['bucket']}", *parts])


def _is_plain(part: str) -> bool:
    return part not in ("", ".", "..") and part.isprintable() and not set(part) & set("\\?#*[]{}")


def bucket_and_key(url: str) -> tuple[str, str]:
    """Return the bucket and the key of a URL.

    >>> bucket_and_key("s3://shop/landing/a.csv")
    ('shop', 'landing/a.csv')
    """
    bucket, _, key = url.removeprefix("s3://").partition("/")
    return bucket, key


@dataclass(frozen=True, slots=True)
class Access:
    """The configured access to S3. Without an `endpoint` (a URL) it is that of AWS.

    With `by_path` the bucket is in the path of a request, else in its host name. `client` is one of boto3.
    """

    region: str
    endpoint: str | None = None
    by_path: bool = False
    client: Any = field(default=None, repr=False, compare=False)

    def object_store_options(self, bucket: str) -> Mapping[str, str]:
        """Return the options with which delta-rs reaches a bucket; it finds credentials as boto3 does.

        A commit is an object that S3 creates only if it does not exist, so no lock and no DynamoDB table is needed.
        Without `AWS_FORCE_CREDENTIAL_LOAD` delta-rs ignores profiles if the endpoint is configured.
        """
        options = {
            "aws_region": self.region,
            "aws_conditional_put": "etag",
            "aws_virtual_hosted_style_request": str(not self.by_path).lower(),
            "AWS_S3_ALLOW_UNSAFE_RENAME": "false",
            "AWS_FORCE_CREDENTIAL_LOAD": "true",
        }
        if self.endpoint is not None:
            scheme, _, host = self.endpoint.partition("://")
            options["aws_endpoint_url_s3"] = self.endpoint if self.by_path else f"{scheme}://{bucket}.{host}"
            options["aws_allow_http"] = str(scheme == "http").lower()
        return options

    @property
    def iceberg_properties(self) -> Mapping[str, str]:
        """The properties of an Iceberg catalog for Spark and for PyIceberg; each ignores those of the other."""
        properties = {"client.region": self.region, "s3.region": self.region}
        if self.endpoint is not None:
            properties |= {
                "s3.endpoint": self.endpoint,
                "s3.force-virtual-addressing": str(not self.by_path).lower(),
            }
        return {**properties, "s3.path-style-access": str(self.by_path).lower()}

    def check(self, url: str) -> None:
        """Send a request to the bucket of a URL.

        Raises ConfigError if it does not exist or access is denied, StoreUnreachable for transient errors.
        """
        from lakeward.adapters.aws.s3.error_messages import explain_s3_errors  # noqa: PLC0415  # it imports boto3

        bucket, key = bucket_and_key(url)
        with explain_s3_errors(url):
            self.client.list_objects_v2(Bucket=bucket, Prefix=key, MaxKeys=1)


def find_access() -> Access:
    """Read the AWS configuration; raises SetupError without boto3, ConfigError for an unknown profile."""
    require_boto3("S3", "s3")
    import boto3  # noqa: PLC0415  # boto3 is optional
    import botocore.session  # noqa: PLC0415
    from botocore.config import Config  # noqa: PLC0415

    from lakeward.adapters.aws.s3.error_messages import explain_s3_errors  # noqa: PLC0415

    with explain_s3_errors("S3"):
        session = botocore.session.get_session()
        s3_settings = session.get_scoped_config().get("s3", {})
        boto_session = boto3.Session(botocore_session=session)
        config = Config(connect_timeout=_CONNECT_TIMEOUT, user_agent_extra="lakeward")
        client = boto_session.client("s3", config=config)
        aws_client = boto_session.client("s3", config=Config(ignore_configured_endpoint_urls=True))
        is_aws = client.meta.endpoint_url == aws_client.meta.endpoint_url
        endpoint = None if is_aws else str(client.meta.endpoint_url)
        style = s3_settings.get("addressing_style", "auto") if isinstance(s3_settings, Mapping) else "auto"
        by_path = style == "path" or (style != "virtual" and endpoint is not None)
        if by_path:
            client = boto_session.client("s3", config=config.merge(Config(s3={"addressing_style": "path"})))
    region = str(client.meta.region_name or "us-east-1")
    return Access("us-east-1" if region == "aws-global" else region, endpoint, by_path, client)
