"""Post notices as JSON to a URL. The URL is a secret, so errors and log messages never show it.

The standard library sends the request, because urllib3 logs the path of a URL with each attempt. A request is not
repeated: the next run, or the next check of a process that follows, sends a notice that was not accepted.
"""

from __future__ import annotations

import json
import re
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from email.message import Message
from html import escape
from http import HTTPStatus
from typing import IO, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlsplit
from urllib.request import HTTPRedirectHandler, Request, build_opener

from lakeward.core.errors import ConfigError, LakewardError, StoreUnreachable
from lakeward.core.reporting.notices import RunNotice
from lakeward.core.settings.secrets import Secret, SecretName

_TRANSIENT_STATUSES: Final = frozenset(
    {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS}
)
_PAGE: Final = "docs/reference/notices.md"


class _NoRedirects(HTTPRedirectHandler):
    """Follows no redirect: a POST would become a GET, to an address that is not configured."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        """Return no request."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """Posts each notice: `text` for people, as webhooks of chats expect it, and fields for programs.

    Characters with a special meaning in Slack are escaped in `text`: `<!channel>` would notify everybody. `url`
    is the name of the secret with the URL, and `read_secret` reads it for each notice, since it may have been
    replaced. `timeout` is in seconds.
    """

    url: SecretName
    read_secret: Callable[[SecretName], Secret]
    timeout: float

    def send(self, notice: RunNotice) -> None:
        """Post a notice; raises StoreUnreachable if the server does not answer, ConfigError if it refuses."""
        body = json.dumps({"text": escape(notice.text, quote=False), **notice.to_document()}).encode()
        error = self._post(self._read_url(), body)
        if error is not None:  # raised outside of `except`, so that it has no cause that may show the URL
            raise error

    def _read_url(self) -> str:
        url = self.read_secret(self.url).reveal().decode("ascii", "replace").strip()
        if not _is_url(url):
            raise ConfigError(
                f"{self._name} has no valid URL",
                todo="Store a URL that begins with https:// or http://, and has a host and no blanks. It is a "
                "secret and not shown here.",
            )
        return url

    def _post(self, url: str, body: bytes) -> LakewardError | None:
        """Post a body; return the error if this failed."""
        headers = {"Content-Type": "application/json", "User-Agent": "lakeward"}
        request = Request(url, body, headers, method="POST")  # noqa: S310  # the scheme was checked
        try:
            with build_opener(_NoRedirects).open(request, timeout=self.timeout):
                return None
        except HTTPError as error:
            error.close()
            return self._status_error(error.code)
        except URLError as error:
            return self._unreachable(self._describe(error.reason))
        except Exception as error:  # noqa: BLE001  # any error of the library may show the URL
            return self._unreachable(self._describe(error))

    def _status_error(self, status: int) -> LakewardError:
        phrases = {code.value: code.phrase for code in HTTPStatus}
        found = f"it answers with {status} {phrases.get(status, '')}".rstrip()
        if status in _TRANSIENT_STATUSES or status >= 500:
            return self._unreachable(found)
        return ConfigError(
            f"{self._name} refuses a notice",
            found=found,
            todo=f"If the webhook was removed or replaced, store its new URL. {_PAGE} shows what is posted.",
        )

    def _unreachable(self, found: str) -> StoreUnreachable:
        return StoreUnreachable(
            f"{self._name} cannot be reached",
            found=found,
            todo="Nothing is lost: the notice is sent again. If it persists, check the URL and the network.",
        )

    def _describe(self, reason: BaseException | str) -> str:
        """Return why there was no response, in text that cannot contain the URL."""
        if isinstance(reason, TimeoutError):
            return f"no answer within {self.timeout:g} s"
        if isinstance(reason, ssl.SSLError):
            return f"TLS: {reason.reason}"
        if isinstance(reason, OSError) and reason.strerror:
            return reason.strerror
        return type(reason).__name__

    @property
    def _name(self) -> str:
        return f"the webhook of the secret {self.url}"


def _is_url(text: str) -> bool:
    """Return True for an HTTP URL with a host and only characters that a request may have."""
    try:
        parts = urlsplit(text)
        has_server = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and has_server and re.fullmatch(r"[!-~]+", text) is not None
