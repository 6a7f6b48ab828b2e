"""A schema registry of Confluent, or one with the same API, and its wire format.

docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format and
…/schema-registry/develop/api.html#get--schemas-ids-int-%20id
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import requests
from requests.adapters import HTTPAdapter
from urllib3.util import Retry

from lakeward.adapters.sources.kafka.access import RegistryOptions
from lakeward.adapters.sources.kafka.registries.schemas import Framed
from lakeward.core.errors import ConfigError, LakewardError, SourceError, StoreUnreachable
from lakeward.core.settings.secrets import Secret, SecretName

_HEAD: Final = 5
"""The bytes before the body: a zero, and the id as a whole number of four bytes."""

_BUSY: Final = (429, 500, 502, 503, 504)
_NOT_FOUND: Final = 404
_TRIES_AGAIN: Final = Retry(
    2, backoff_factor=0.2, status_forcelist=_BUSY, raise_on_status=False, respect_retry_after_header=False
)


@dataclass(frozen=True, slots=True)
class ConfluentRegistry:
    """A registry. The first request is sent when a schema is needed."""

    url: str
    options: RegistryOptions
    base: Path
    secret: Callable[[SecretName], Secret]
    timeout: int

    @property
    def name(self) -> str:
        """Its URL as the name of a folder."""
        return quote(self.url, safe="")

    @property
    def head(self) -> int:
        """The length of the zero and the id."""
        return _HEAD

    def split(self, data: bytes) -> Framed | None:
        """Return the id of a schema and the bytes after it, or None for bytes that do not begin with a zero."""
        if len(data) < _HEAD or data[0] != 0:
            return None
        return Framed(str(int.from_bytes(data[1:_HEAD])), lambda: data[_HEAD:])

    def fetch(self, id_: str, message_label: str) -> str:
        """Return the text of an Avro schema; `message_label` names the message in errors."""
        entry = self._request(id_, message_label)
        kind = entry.get("schemaType", "AVRO")
        if kind != "AVRO" or entry.get("references"):
            problem = f"is of the type {kind}" if kind != "AVRO" else "refers to schemas of other subjects"
            raise SourceError(
                f"the schema {id_} of {message_label} cannot be used",
                found=f"it {problem}",
                todo="Nothing of this batch was applied. Let the converter write Avro, and each schema whole: "
                "Protobuf, JSON Schema and references are not read.",
            )
        return str(entry["schema"])

    def _request(self, id_: str, message_label: str) -> Mapping[str, Any]:
        with requests.Session() as session:
            for scheme in ("http://", "https://"):
                session.mount(scheme, HTTPAdapter(max_retries=_TRIES_AGAIN))
            try:
                answer = session.get(
                    f"{self.url}/schemas/ids/{id_}",
                    auth=self._login(),
                    verify=True if self.options.ca_file is None else str(self.base / self.options.ca_file),
                    timeout=self.timeout,
                    headers={"Accept": "application/vnd.schemaregistry.v1+json, application/json"},
                )
            except requests.exceptions.SSLError as error:
                raise self._refused_error(str(error)) from None
            except requests.exceptions.RequestException as error:
                raise self._unreachable_error(str(error)) from None
            except OSError as error:  # no such file of certificates
                raise self._refused_error(str(error)) from None
        if answer.status_code != requests.codes.ok:
            raise self._response_error(answer, id_, message_label)
        try:
            entry = answer.json()
        except ValueError:
            entry = None
        if not isinstance(entry, dict) or "schema" not in entry:
            raise self._refused_error(f"its answer is not that of a registry: {answer.text[:100]!r}")
        return entry

    def _login(self) -> tuple[str, str] | None:
        """Return user and password as texts; the client sends each character as one byte."""
        options = self.options
        if options.username is None or options.password is None:
            return None
        return options.username.encode().decode("latin-1"), self.secret(options.password).reveal().decode("latin-1")

    def _response_error(self, answer: requests.Response, id_: str, message_label: str) -> LakewardError:
        status = f"{answer.status_code} {answer.reason}: {answer.text[:200]}"
        if answer.status_code in _BUSY:
            return self._unreachable_error(status)
        if answer.status_code != _NOT_FOUND:
            return self._refused_error(status)
        return SourceError(
            f"the registry {self.url} has no schema {id_}",
            found=f"it is that of {message_label}; {status}",
            todo="Nothing of this batch was applied; the next run tries again. Does `url` under [source.registry] "
            "name the registry that the connector writes to, with its path?",
        )

    def _refused_error(self, reason: str) -> ConfigError:
        return ConfigError(
            f"the registry {self.url} cannot be used",
            found=reason,
            todo="Correct [source.registry]: `url`, `ca_file`, `username` and `password`.",
        )

    def _unreachable_error(self, reason: str) -> StoreUnreachable:
        return StoreUnreachable(
            f"the registry {self.url} does not answer",
            found=reason,
            todo="Nothing of this batch was applied; the next run reads it again. Is the registry up, and does "
            "`url` under [source.registry] name it as it is reached from here?",
        )
