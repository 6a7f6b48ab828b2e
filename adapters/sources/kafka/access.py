"""Settings of access to a broker and to a schema registry."""

from __future__ import annotations

from typing import Annotated, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from lakeward.plugins.options import NamedSecret

_IAM: Final = "AWS_MSK_IAM"


class SecurityOptions(BaseModel):
    """TLS and SASL of the connection to the broker."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        "PLAINTEXT", description="The protocol of the broker's listener (security.protocol)."
    )
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "AWS_MSK_IAM"] | None = Field(
        None,
        description="With SASL: the mechanism of the login; or `AWS_MSK_IAM` for a cluster of Amazon MSK, with "
        "`region` and no password: `pip install 'lakeward[kafka,msk]'`.",
    )
    region: str | None = Field(
        None,
        pattern=r"^[a-z0-9-]+$",
        description="With `AWS_MSK_IAM`: the region of the cluster. The credentials are those of the AWS command "
        "line.",
    )
    username: str | None = Field(None, description="With SASL: the user.")
    password: NamedSecret | None = Field(
        None, description='With SASL: where the password is, `{ env = "NAME" }` or `{ file = "PATH" }`.'
    )
    ca_file: str | None = Field(
        None,
        description="With TLS: the certificates of the authorities that signed the broker's (PEM), relative to the "
        "settings file; without it those of the machine.",
    )
    certificate: str | None = Field(
        None, description="With TLS: the client's own certificate (PEM), if it needs one."
    )
    key: NamedSecret | None = Field(None, description="The private key of `certificate` (PEM), as a secret.")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        has_sasl = self.protocol.startswith("SASL")
        login = (self.username, self.password)
        if not has_sasl and (self.sasl_mechanism, self.region, *login) != (None,) * 4:
            raise ValueError("`sasl_mechanism`, `region`, `username` and `password` are for a protocol with SASL")
        if (self.sasl_mechanism == _IAM) != (self.region is not None) or (self.region and login != (None, None)):
            raise ValueError(f"`{_IAM}` takes `region`, and neither `username` nor `password`")
        if self.region is not None and self.protocol != "SASL_SSL":
            raise ValueError(f"`{_IAM}` takes the protocol SASL_SSL: a token must not be seen by others")
        if has_sasl and self.region is None and None in (self.sasl_mechanism, *login):
            raise ValueError("a protocol with SASL takes `sasl_mechanism`, `username` and `password`")
        if not self.protocol.endswith("SSL") and (self.ca_file, self.certificate, self.key) != (None, None, None):
            raise ValueError("`ca_file`, `certificate` and `key` are for a protocol with SSL")
        if (self.certificate is None) != (self.key is None):
            raise ValueError("`certificate` and `key` go together")
        return self


def _url(value: str | None) -> str | None:
    """Return the URL of a registry without a slash at its end; raises ValueError for any other text."""
    if value is None:
        return None
    parts = urlsplit(value)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.query or parts.fragment:
        raise ValueError('must be an address, as "https://registry:8081"')
    if "@" in parts.netloc:
        raise ValueError("must have no login in it: set `username` and `password`")
    return value.rstrip("/")


class RegistryOptions(BaseModel):
    """The registry with the schemas of Avro messages."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    kind: Literal["confluent", "glue"] = Field(
        "confluent",
        description="`confluent` for a registry of Confluent, or one with the same API; `glue` for the Glue Schema "
        "Registry of AWS, which needs `pip install 'lakeward[glue]'` and no further keys: region and credentials "
        "are those of the AWS command line.",
    )
    url: Annotated[str | None, AfterValidator(_url)] = Field(
        None,
        description="The URL of a `confluent` registry, with the path of its API if it has one, as "
        "`http://registry:8080/apis/ccompat/v7` of Apicurio.",
    )
    username: str | None = Field(None, description="The user, if the registry requires a login (HTTP Basic).")
    password: NamedSecret | None = Field(
        None, description='Where the password is, `{ env = "NAME" }` or `{ file = "PATH" }`.'
    )
    ca_file: str | None = Field(
        None,
        description="The certificates of the authorities that signed the registry's (PEM), relative to the "
        "settings file; without it those of Python's `certifi`.",
    )

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if (self.url is None) != (self.kind == "glue"):
            raise ValueError("a registry of Confluent takes `url`, and that of AWS takes none")
        if (self.username is None) != (self.password is None):
            raise ValueError("`username` and `password` go together")
        if self.kind == "glue" and (self.username, self.ca_file) != (None, None):
            raise ValueError("`username`, `password` and `ca_file` are for a registry of Confluent")
        if self.ca_file is not None and not str(self.url).startswith("https:"):
            raise ValueError("`ca_file` is for an address that begins with https")
        return self
