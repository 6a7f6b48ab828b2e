"""Webhooks, with an HTTP server; no error shows a part of the URL."""

from __future__ import annotations

import logging
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from webhooks import TOKEN, Hook

from lakeward.adapters.notifiers import build_webhook
from lakeward.adapters.secrets.local import EnvironmentSecrets
from lakeward.core.errors import ConfigError, LakewardError, StoreUnreachable
from lakeward.core.ports import Notifier
from lakeward.plugins import Runtime
from lakeward.plugins.testing import NotifierUnderTest, notifier_contract
from lakeward.plugins.testing.laws.notifiers import NOTICE


def webhook(url: str, timeout: float = 30) -> Notifier:
    place = EnvironmentSecrets({"LAKEWARD_WEBHOOK": url})
    runtime = Runtime(lambda: None, secret=lambda name: place.read(name.name), file=Path("lakeward.toml"))
    return build_webhook({"url": {"env": "LAKEWARD_WEBHOOK"}, "timeout": timeout}, runtime)


def bench(hook: Hook, closed_port: int) -> NotifierUnderTest:
    nowhere = webhook(f"http://127.0.0.1:{closed_port}/services/{TOKEN}")
    return NotifierUnderTest(
        notifier=webhook(hook.url), received=lambda: hook.texts, unreachable=nowhere, unshown=TOKEN
    )


TestWebhook = notifier_contract(bench)


def test_special_characters_of_slack_are_escaped(hook: Hook) -> None:
    entry = replace(NOTICE.entries[0], found="<!channel> & <https://x.example|here>")
    webhook(hook.url).send(replace(NOTICE, entries=[entry]))
    (posted,) = hook.posted
    assert "&lt;!channel&gt; &amp; &lt;https://x.example|here&gt;" in posted["text"]
    assert posted["entries"][0]["found"] == entry.found


def test_a_notice_has_text_for_people_and_fields_for_programs(hook: Hook) -> None:
    webhook(f"  {hook.url}\n").send(replace(NOTICE, entries=[replace(NOTICE.entries[0], since=NOTICE.at)]))
    (posted,), (headers,) = hook.posted, hook.headers
    assert posted.pop("text").startswith("lakeward shop: 1 table needs somebody (run 0123456789ab, 2026-")
    entry = NOTICE.entries[0]
    assert posted == {
        "pipeline": "shop",
        "run": "0123456789ab",
        "at": "2026-12-01T00:00:00Z",
        "subject": "lakeward shop: 1 table needs somebody",
        "entries": [
            {
                "table": "shop.orders",
                "code": "LEDGER-001",
                "reason": entry.reason,
                "found": entry.found,
                "next_step": entry.next_step,
                "since": "2026-12-01T00:00:00Z",
            }
        ],
        "more": 0,
    }
    assert (headers["Content-Type"], headers["User-Agent"]) == ("application/json", "lakeward")


def refused(url: str, timeout: float = 30) -> LakewardError:
    with pytest.raises(LakewardError) as error:
        webhook(url, timeout).send(NOTICE)
    return error.value


@pytest.mark.parametrize(
    ("status", "kind", "found"),
    [
        (404, ConfigError, "it answers with 404 Not Found"),
        (403, ConfigError, "it answers with 403 Forbidden"),
        (429, StoreUnreachable, "it answers with 429 Too Many Requests"),
        (503, StoreUnreachable, "it answers with 503 Service Unavailable"),
        (599, StoreUnreachable, "it answers with 599"),
    ],
)
def test_the_status_decides_the_error(hook: Hook, status: int, kind: type[LakewardError], found: str) -> None:
    hook.status = status
    error = refused(hook.url)
    assert (type(error), error.found) == (kind, found)
    assert len(hook.posted) == 1, "it is not tried again"


def test_no_redirect_is_followed(hook: Hook) -> None:
    hook.status, hook.location = 302, hook.url.replace("services", "elsewhere")
    assert refused(hook.url).found == "it answers with 302 Found"
    assert [headers["path"] for headers in hook.headers] == [f"/services/{TOKEN}"]


def test_a_response_is_awaited_only_for_the_timeout(hook: Hook) -> None:
    hook.silence = threading.Event()
    assert refused(hook.url, 0.05).found == "no answer within 0.05 s"
    hook.silence.set()


@pytest.mark.parametrize(
    "url",
    [
        *(TOKEN, f"ftp://example.com/{TOKEN}", f"https:///{TOKEN}", f"https://[{TOKEN}", f"file:///{TOKEN}"),
        *(f"https://example.com{rest}{TOKEN}" for rest in (":port/", "/a b/", "/\x01")),
        f"https://éxample.com/{TOKEN}",
    ],
)
def test_an_invalid_url_is_refused_and_not_shown(url: str) -> None:
    error = refused(url)
    assert isinstance(error, ConfigError)
    assert "no valid URL" in error.what
    assert TOKEN not in f"{error!r}{error}{error.__context__!r}{error.__cause__!r}"


def test_a_tls_error_does_not_show_the_url(hook: Hook) -> None:
    error = refused(hook.url.replace("http:", "https:"))
    assert str(error.found).startswith("TLS: ")
    assert TOKEN not in f"{error!r}{error}{error.__context__!r}{error.__cause__!r}"


def test_libraries_log_no_part_of_the_url(
    hook: Hook, closed_port: int, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    webhook(hook.url).send(NOTICE)
    refused(f"http://127.0.0.1:{closed_port}/services/{TOKEN}")
    printed = capsys.readouterr()
    assert TOKEN not in caplog.text + printed.out + printed.err


def test_the_settings_have_the_name_of_the_secret_and_never_the_url() -> None:
    runtime = Runtime(lambda: None, file=Path("lakeward.toml"))
    with pytest.raises(ConfigError) as error:
        build_webhook({"url": f"https://example.com/{TOKEN}"}, runtime)
    assert "[notify.url]" in str(error.value)
    assert TOKEN not in f"{error.value!r}{error.value}"


@pytest.mark.parametrize("timeout", [0, -1, 61])
def test_the_timeout_is_at_most_a_minute(timeout: float) -> None:
    with pytest.raises(ConfigError, match="timeout"):
        webhook("https://example.com", timeout)
