"""Error messages of SQS, and the options of its queue."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from queues_of_aws import Sqs

from lakeward.adapters.aws import service_clients
from lakeward.adapters.queues import sqs as plugin
from lakeward.core.errors import ConfigError, StoreUnreachable
from lakeward.plugins import Runtime

ADDED = {"tables": [], "tables_at": lambda _: ()}


def built(url: str, **options: Any) -> Any:
    return plugin.build({**ADDED, "url": url, **options}, Runtime(lambda: None, file=Path("lakeward.toml")))


def test_the_error_for_a_missing_queue_names_it(sqs: Sqs) -> None:
    queue = built(f"{sqs.url}-else", wait=0)
    with pytest.raises(ConfigError, match=f"the queue {sqs.url}-else does not exist"):
        queue.receive()
    queue.client.close()


def test_a_queue_without_a_server_does_not_answer(sqs: Sqs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(service_clients, "_ATTEMPTS", 1)
    queue = built(sqs.url, wait=0, endpoint="http://127.0.0.1:9")
    with pytest.raises(StoreUnreachable, match="SQS does not answer"):
        queue.receive()
    queue.client.close()


def test_the_settings_set_region_endpoint_and_times(sqs: Sqs) -> None:
    queue = built(sqs.url, region="eu-west-1", endpoint="http://127.0.0.1:9", wait=20, visibility="2h")
    assert (queue.client.meta.region_name, queue.client.meta.endpoint_url) == ("eu-west-1", "http://127.0.0.1:9")
    assert (queue.wait, queue.visibility) == (20, 7200)
    assert queue.client.meta.config.read_timeout > 20
    queue.client.close()


@pytest.mark.parametrize(
    "options",
    [{"url": "landing"}, {"url": "https://sqs"}, {"wait": 21}, {"wait": -1}, {"visibility": "30s"}, {"region": ""}],
)
def test_invalid_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        built(**{"url": "https://sqs.eu-central-1.amazonaws.com/123456789012/landing", **options})


def test_no_secret_is_shown(sqs: Sqs) -> None:
    queue = built(sqs.url)
    assert "client" not in repr(queue)
    queue.client.close()
