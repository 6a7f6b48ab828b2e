"""The role of the job against a whole run on Spark: what S3A, Iceberg's Java, PyIceberg and boto3 ask for together.

The other tests of roles take what libraries of Java need from their documentation; this one sees it.
"""

from __future__ import annotations

import io
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote

import boto3
import pytest
from botocore.config import Config
from buckets import ENVIRONMENT, one_by_one
from deployments import PARAMETERS, SOURCE, render_template, settings
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from policies import REGION, Call, Requested, Stack, calls_of, missing_permissions
from werkzeug.serving import make_server

pytestmark = [pytest.mark.spark, pytest.mark.long]

SERVICES = {"DynamoDB_20120810": "dynamodb", "AWSGlue": "glue"}
MORE = """
[spark]
small_batch = 0
[tables."shop.orders"]
key = ["id"]
columns = { id = "bigint", status = "string" }
"""
ARCHIVED = SOURCE + 'landing = "archived"\narchive = "s3://deployed-archive/dms"\n'


class Aws:
    """A server that plays AWS, and notes the requests of all processes."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.app = one_by_one(DomainDispatcherApplication(create_backend_app))

    def __call__(self, environ: dict[str, Any], start: Any) -> Any:
        body = b""
        if "HTTP_X_AMZ_TARGET" in environ or "delete" in environ.get("QUERY_STRING", ""):
            body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
            environ["wsgi.input"] = io.BytesIO(body)
        if "of-the-test" not in environ.get("HTTP_USER_AGENT", ""):
            self.calls += self._calls(environ, body)
        return self.app(environ, start)

    def _calls(self, environ: dict[str, Any], body: bytes) -> Iterator[Call]:
        service, _, operation = environ.get("HTTP_X_AMZ_TARGET", "").partition(".")
        if service:
            yield from calls_of(Requested(SERVICES[service], operation, json.loads(body)))
            return
        path = unquote(environ.get("RAW_URI", environ["PATH_INFO"])).partition("?")[0]
        bucket, _, key = path.lstrip("/").partition("/")
        asked = parse_qs(environ.get("QUERY_STRING", ""), keep_blank_values=True)
        object_, method = f"arn:aws:s3:::{bucket}/{key}", environ["REQUEST_METHOD"]
        if not key and "delete" not in asked:
            assert method in ("GET", "HEAD"), f"{method} {path}"
            yield Call("s3:ListBucket", f"arn:aws:s3:::{bucket}")
        elif "HTTP_X_AMZ_COPY_SOURCE" in environ:
            source = unquote(environ["HTTP_X_AMZ_COPY_SOURCE"]).lstrip("/")
            yield from (Call("s3:GetObject", f"arn:aws:s3:::{source}"), Call("s3:PutObject", object_))
        elif "delete" in asked:
            keys = body.decode().split("<Key>")[1:]
            yield from (Call("s3:DeleteObject", f"arn:aws:s3:::{bucket}/{one.partition('<')[0]}") for one in keys)
        else:
            aborted = method == "DELETE" and "uploadId" in asked
            name = {"GET": "GetObject", "HEAD": "GetObject", "PUT": "PutObject", "POST": "PutObject"}.get(method)
            yield Call(f"s3:{name or ('AbortMultipartUpload' if aborted else 'DeleteObject')}", object_)


@pytest.fixture
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[Aws]:
    found = Aws()
    server = make_server("127.0.0.1", 0, found, threaded=True)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    endpoint = {"AWS_ACCESS_KEY_ID": "AKIATEST", "AWS_ENDPOINT_URL": f"http://127.0.0.1:{server.server_port}"}
    for name, value in {**ENVIRONMENT, **endpoint}.items():
        monkeypatch.setenv(name, value)
    yield found
    for name in ("landing", "lake", "archive"):
        s3, bucket = client("s3"), f"deployed-{name}"
        for item in s3.list_objects_v2(Bucket=bucket).get("Contents", ()):
            s3.delete_object(Bucket=bucket, Key=item["Key"])
        s3.delete_bucket(Bucket=bucket)
    for name in ("ledgers", "leases"):
        client("dynamodb").delete_table(TableName=f"deployed-{name}")
    server.shutdown()
    thread.join()
    server.server_close()


def client(service: str) -> Any:
    return boto3.Session().client(service, config=Config(user_agent_extra="of-the-test"))


@pytest.mark.parametrize("kind", ["iceberg", "delta"])
def test_a_run_on_spark_asks_for_nothing_that_the_role_lacks(aws: Aws, tmp_path: Path, kind: str) -> None:
    text = settings(kind, source=ARCHIVED, more=MORE)
    stack = Stack(render_template(tmp_path, "glue", text, kind=kind), PARAMETERS)
    (tmp_path / "lakeward.toml").write_text(text.replace('kind = "sqs"', 'kind = "poll"').replace(URL, ""), "utf-8")
    for bucket in ("landing", "lake", "archive"):
        client("s3").create_bucket(
            Bucket=f"deployed-{bucket}", CreateBucketConfiguration={"LocationConstraint": REGION}
        )
    for table in ("LedgerTable", "LeaseTable"):
        client("dynamodb").create_table(**stack.template["Resources"][table]["Properties"])
    for number, rows in enumerate(("I,2026-11-01 10:00:00,1,new\n", "U,2026-11-02 10:00:00,1,paid\n"), 1):
        name = f"dms/shop/orders/2026112{number}-100000000.csv"
        client("s3").put_object(Bucket="deployed-landing", Key=name, Body=rows.encode())
        command = [sys.executable, "-m", "lakeward.entrypoints.cli", "run", "--once", "--json", "--log", "off"]
        ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, ended.stdout + ended.stderr
    assert {call.action.partition(":")[0] for call in aws.calls} >= {"s3", "dynamodb"}
    assert missing_permissions(stack.statements("JobRole"), aws.calls) == []


URL = 'url = "https://sqs.eu-central-1.amazonaws.com/123456789012/deployed-landing"\n'
