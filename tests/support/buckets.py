"""An S3 server of moto in a thread, which records its requests."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from itertools import count
from types import SimpleNamespace
from typing import Any
from urllib.parse import parse_qsl, unquote

import boto3
import pytest
from moto.core import DEFAULT_ACCOUNT_ID
from moto.dynamodb import models as dynamodb
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from moto.s3.models import s3_backends
from werkzeug.serving import WSGIRequestHandler, make_server

ENVIRONMENT = {
    "AWS_ACCESS_KEY_ID": "of a test",
    "AWS_SECRET_ACCESS_KEY": "secret word of a test",
    "AWS_DEFAULT_REGION": "eu-central-1",
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_MAX_ATTEMPTS": "1",
    "AWS_CONFIG_FILE": "/dev/null",
    "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
}
"""Environment variables of AWS, without the settings of this machine."""

NUMBERS = count(1)


@dataclass(frozen=True)
class Request:
    """A request of S3: method, path and query."""

    method: str
    path: str
    asked: dict[str, str]
    range: str | None = None
    agent: str = ""

    @property
    def is_listing(self) -> bool:
        return self.method == "GET" and "list-type" in self.asked

    @property
    def prefix(self) -> str:
        return self.asked.get("prefix", "")


@dataclass
class Buckets:
    """The server and its requests since they were last cleared."""

    endpoint: str = ""
    requests: list[Request] = field(default_factory=list)

    @cached_property
    def client(self) -> Any:
        session = boto3.Session("of a test", "secret word of a test", region_name=ENVIRONMENT["AWS_DEFAULT_REGION"])
        return session.client("s3", endpoint_url=self.endpoint)

    def make(self) -> str:
        name = f"bucket-{next(NUMBERS)}"
        self.client.create_bucket(
            Bucket=name, CreateBucketConfiguration={"LocationConstraint": ENVIRONMENT["AWS_DEFAULT_REGION"]}
        )
        return name

    def put(self, url: str, content: str | bytes) -> None:
        bucket, _, key = url.removeprefix("s3://").partition("/")
        self.client.put_object(Bucket=bucket, Key=key, Body=content)

    def put_many(self, url: str, names: Iterable[str], content: bytes) -> None:
        bucket, _, prefix = url.removeprefix("s3://").partition("/")
        for name in names:
            s3_backends[DEFAULT_ACCOUNT_ID]["aws"].put_object(bucket, f"{prefix}/{name}", content)

    def keys(self, bucket: str) -> list[str]:
        pages = self.client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        return [item["Key"] for page in pages for item in page.get("Contents", ())]

    def listings(self, prefix: str = "") -> list[Request]:
        return [request for request in self.requests if request.is_listing and request.prefix.startswith(prefix)]


def one_by_one(app: Any) -> Any:
    """Answer requests of DynamoDB one after the other: moto checks a condition, and writes a moment later."""
    lock = threading.Lock()

    def answer(environ: dict[str, Any], start: Any) -> Any:
        with lock if environ.get("HTTP_X_AMZ_TARGET", "").startswith("DynamoDB") else nullcontext():
            return app(environ, start)

    return answer


def copying_tables_once(transact: Callable[..., None]) -> Callable[..., None]:
    """Copy a table once for a transaction: moto copies it for each item, in case that the transaction fails."""

    def write(backend: object, transact_items: list[dict[str, Any]]) -> None:
        copies: dict[int, Any] = {}

        def deepcopy(value: Any) -> Any:
            if not isinstance(value, dynamodb.Table):
                return copy.deepcopy(value)
            if id(value) not in copies:
                copies[id(value)] = copy.deepcopy(value)
            return copies[id(value)]

        with pytest.MonkeyPatch.context() as patch:  # requests are answered one after the other
            patch.setattr(dynamodb, "copy", SimpleNamespace(deepcopy=deepcopy))
            transact(backend, transact_items)

    return write


def counted(app: Any, requests: list[Request]) -> Callable[..., Iterable[bytes]]:
    """Return a server that records its requests."""

    def answer(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        asked = dict(parse_qsl(environ.get("QUERY_STRING", ""), keep_blank_values=True))
        path = unquote(environ.get("RAW_URI", environ["PATH_INFO"])).partition("?")[0]
        agent = environ.get("HTTP_USER_AGENT", "")
        requests.append(Request(environ["REQUEST_METHOD"], path, asked, environ.get("HTTP_RANGE"), agent))
        body: Iterable[bytes] = app(environ, start)
        return body

    return answer


class SilentHandler(WSGIRequestHandler):
    """A handler without a log line for each request, which nobody reads."""

    def log_request(self, *_: object) -> None:
        pass


@pytest.fixture(scope="session")
def s3_server() -> Iterator[Buckets]:
    buckets, backend = Buckets(), dynamodb.DynamoDBBackend
    app = counted(one_by_one(DomainDispatcherApplication(create_backend_app)), buckets.requests)
    server = make_server("127.0.0.1", 0, app, threaded=True, request_handler=SilentHandler)
    buckets.endpoint = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(backend, "transact_write_items", copying_tables_once(backend.transact_write_items))
        yield buckets
    server.shutdown()
    thread.join()
    server.server_close()


def set_environment(monkeypatch: pytest.MonkeyPatch, **variables: str) -> None:
    """Set the credentials of a test and these variables, and no profile."""
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    for name, value in {**ENVIRONMENT, **variables}.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def aws_services(s3_server: Buckets, monkeypatch: pytest.MonkeyPatch) -> None:
    """Set all services of AWS in the environment; moto finds a service behind a key without blanks."""
    set_environment(monkeypatch, AWS_ENDPOINT_URL=s3_server.endpoint, AWS_ACCESS_KEY_ID="of-a-test")


@pytest.fixture
def s3(s3_server: Buckets, monkeypatch: pytest.MonkeyPatch) -> Buckets:
    """Return an S3 for this test alone, set in the environment."""
    set_environment(monkeypatch, AWS_ENDPOINT_URL_S3=s3_server.endpoint)
    s3_server.requests.clear()
    return s3_server
