"""Settings in an object of S3."""

from __future__ import annotations

from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict, Field

from lakeward.adapters.aws.s3.access import Access, bucket_and_key, find_access, normal_url
from lakeward.core.errors import ConfigError
from lakeward.core.ports import SettingsStore
from lakeward.core.settings.layers import SettingsLayer
from lakeward.core.settings.text import read_settings
from lakeward.plugins import Options, Registry, Runtime, hookimpl
from lakeward.plugins.options import validated


class S3StoreOptions(BaseModel):
    """An object of S3 with TOML, or with the same content as JSON."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: str = Field(description="The URL of the object, as `s3://bucket/key.toml`.")


@dataclass(frozen=True, slots=True)
class SettingsObject:
    """A settings object of S3; `url` is in normal form."""

    url: str
    access: Access = field(repr=False)

    def read(self) -> SettingsLayer:
        """Return the content of the object; raises ConfigError if it does not exist, or is not TOML or JSON."""
        from lakeward.adapters.aws.s3.error_messages import explain_s3_errors  # noqa: PLC0415  # imports boto3

        bucket, key = bucket_and_key(self.url)
        try:
            with explain_s3_errors(self.url):
                text = self.access.client.get_object(Bucket=bucket, Key=key)["Body"].read().decode("utf-8-sig")
        except FileNotFoundError as error:
            raise ConfigError(
                f"{self.url} does not exist", todo="Correct the URL, or upload the object."
            ) from error
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"{self.url} cannot be read", found=str(error), todo="Upload it again, in UTF-8."
            ) from error
        return SettingsLayer(origin=self.url, content=read_settings(text, self.url))


def build(options: Options, runtime: Runtime) -> SettingsStore:
    """Build the reader of an object; no request is sent yet."""
    settings = validated(S3StoreOptions, options, str(runtime.file), within="settings.stores")
    return SettingsObject(normal_url(settings.name), find_access())


@hookimpl
def register(registry: Registry) -> None:
    """Register the settings store `s3`."""
    registry.settings_stores.add("s3", build)
