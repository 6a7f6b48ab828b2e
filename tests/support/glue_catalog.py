"""A Glue Data Catalog of moto: its changes, and its entries as other programs read them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any

import boto3
import pytest
from buckets import ENVIRONMENT, Buckets

from lakeward.adapters.registrations.glue.catalog import GlueCatalog
from lakeward.plugins.testing import FoundEntry


@cache
def client_of(endpoint: str) -> Any:
    """Return a client for all tests: to make one takes half a second."""
    return boto3.Session().client("glue", endpoint_url=endpoint)


@dataclass
class Glue:
    """The catalog; `changes` are the operations that changed something, in order."""

    s3: Buckets
    changes: list[str] = field(default_factory=list)

    @cached_property
    def bucket(self) -> str:
        return self.s3.make()

    @property
    def client(self) -> Any:
        return client_of(self.s3.endpoint)

    def catalog(self, pipeline: str = "shop", **options: Any) -> GlueCatalog:
        own_catalog = GlueCatalog(pipeline=pipeline, **options)
        own_catalog.__dict__["client"] = self.client
        return own_catalog

    def note(self, model: Any, **_: Any) -> None:
        if not model.name.startswith("Get"):
            self.changes.append(model.name)

    def entry(self, database: str, name: str) -> Mapping[str, Any]:
        own_entry: Mapping[str, Any] = self.client.get_table(DatabaseName=database, Name=name)["Table"]
        return own_entry

    def find(self, identifier: tuple[str, str]) -> FoundEntry | None:
        try:
            storage = self.entry(*identifier)["StorageDescriptor"]
        except self.client.exceptions.EntityNotFoundException:
            return None
        columns = [(column["Name"], column.get("Comment", "")) for column in storage["Columns"]]
        return FoundEntry(location=storage["Location"], columns=columns)


@pytest.fixture
def glue(s3_server: Buckets, monkeypatch: pytest.MonkeyPatch) -> Iterator[Glue]:
    monkeypatch.delenv("AWS_PROFILE", raising=False)
    named = {"AWS_ENDPOINT_URL": s3_server.endpoint, "AWS_ACCESS_KEY_ID": "AKIATEST"}
    for name, value in {**ENVIRONMENT, **named}.items():
        monkeypatch.setenv(name, value)
    server = Glue(s3_server)
    for database in server.client.get_databases()["DatabaseList"]:
        server.client.delete_database(Name=database["Name"])
    server.client.meta.events.register("after-call.glue", server.note)
    yield server
    server.client.meta.events.unregister("after-call.glue", server.note)
