"""Notices as JSON that is posted to a URL, which is a secret: nothing that is said of it here shows any of it.

The standard library posts it, since urllib3 writes paths of URLs into its own log, a warning for each try. Nothing
is tried again: what was not taken is told by the next run, or the next look of a follower.
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

_LATER: Final = frozenset({HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_EARLY, HTTPStatus.TOO_MANY_REQUESTS})
_PAGE: Final = "docs/reference/notices.md"


class _NoRedirects(HTTPRedirectHandler):
    """Follows none: a POST would become a GET, and go where nobody wrote that it should."""

    def redirect_request(
        self, req: Request, fp: IO[bytes], code: int, msg: str, headers: Message, newurl: str
    ) -> None:
        """Say that there is nothing to follow."""


@dataclass(frozen=True, slots=True)
class Webhook:
    """Posts each notice: `text` for people, as hooks of chats take it, beside its fields for programs.

    In `text` the characters are escaped of which Slack makes commands: `<!channel>` would call everybody.

    `secret` reads the `url`, with each notice: it may have been replaced. It must answer within `timeout` seconds.
    """

    url: SecretName
    secret: Callable[[SecretName], Secret]
    timeout: float

    def send(self, notice: RunNotice) -> None:
        """Post it; raises StoreUnreachable where nothing answers, ConfigError where it is refused."""
        body = json.dumps({"text": escape(notice.text, quote=False), **notice.to_document()}).encode()
        error = self._post(self._read_url(), body)
        if error is not None:  # raised here, so that no error of another, which may show the URL, is its context
            raise error

    def _read_url(self) -> str:
        url = self.secret(self.url).reveal().decode("ascii", "replace").strip()
        if not _is_url(url):
            raise ConfigError(
                f"{self._name} has no URL that can be asked",
                todo="It must begin with https:// or http://, and have a host, and no blanks. It is not shown: it "
                "is a secret.",
            )
        return url

    def _post(self, url: str, body: bytes) -> LakewardError | None:
        """Post; return why that did not work."""
        headers = {"Content-Type": "application/json", "User-Agent": "lakeward"}
        request = Request(url, body, headers, method="POST")  # noqa: S310  # its scheme was looked at
        try:
            with build_opener(_NoRedirects).open(request, timeout=self.timeout):
                return None
        except HTTPError as error:
            error.close()
            return self._refused(error.code)
        except URLError as error:
            return self._unreachable(self._reason(error.reason))
        except Exception as error:  # noqa: BLE001  # whatever the library raises may show the URL
            return self._unreachable(self._reason(error))

    def _refused(self, status: int) -> LakewardError:
        known = {one.value: one.phrase for one in HTTPStatus}
        found = f"it answers with {status} {known.get(status, '')}".rstrip()
        if status in _LATER or status >= 500:
            return self._unreachable(found)
        return ConfigError(
            f"{self._name} refuses a notice",
            found=found,
            todo=f"Was the hook removed or replaced? {_PAGE} shows what is posted.",
        )

    def _unreachable(self, found: str) -> StoreUnreachable:
        return StoreUnreachable(
            f"{self._name} cannot be reached",
            found=found,
            todo="Nothing is lost: it is told again. If that goes on: is the URL right, and the network there?",
        )

    def _reason(self, reason: BaseException | str) -> str:
        """Return why nothing was answered, in words that cannot have a part of the URL in them."""
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
    """Return True for a URL of HTTP with a host, without blanks and what else a request cannot have."""
    try:
        parts = urlsplit(text)
        has_place = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        return False
    return parts.scheme in ("http", "https") and has_place and re.fullmatch(r"[!-~]+", text) is not None
