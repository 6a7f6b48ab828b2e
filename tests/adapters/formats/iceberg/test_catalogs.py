"""A catalog that cannot be read is said with what to do, whichever it is; no error shows what is secret."""

from __future__ import annotations

import sys
from pathlib import Path
from types import ModuleType

import pytest

from lakeward.adapters.formats.iceberg.metadata.catalog import IcebergCatalog
from lakeward.adapters.formats.iceberg.options import IcebergOptions
from lakeward.core.dimension import TableName
from lakeward.core.errors import LakewardError, SetupError, TableError

ITEM = TableName("shop", "item")
NOWHERE = "http://127.0.0.1:9"
GLUE = {"glue.region": "eu-west-1", "glue.access-key-id": "AKIA", "glue.secret-access-key": "sesame"}


@pytest.fixture(autouse=True)
def nobody(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """There are no credentials, and there is no region."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr("botocore.endpoint.time.sleep", lambda _: None)  # it asks ten times
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, str(tmp_path / "nothing"))


def refused(folder: Path, kind: str, properties: dict[str, str]) -> LakewardError:
    options = {"warehouse": "lake/", "catalog": kind, "catalog_properties": properties}
    catalog = IcebergCatalog(IcebergOptions.model_validate(options), folder)
    with pytest.raises(LakewardError) as raised:
        catalog.load(ITEM)
    return raised.value


@pytest.mark.parametrize(
    ("kind", "properties", "found"),
    [
        ("rest", {}, "URI missing"),
        ("rest", {"uri": NOWHERE, "oauth2-server-uri": NOWHERE, "credential": "me:sesame"}, "Connection refused"),
        ("rest", {"uri": "me:sesame@nowhere"}, "'…@nowhere/v1/config'"),
        ("glue", {}, "You must specify a region"),
        ("glue", {"glue.region": "eu-west-1"}, "Unable to locate credentials"),
        ("glue", {**GLUE, "glue.endpoint": NOWHERE}, "Could not connect to the endpoint URL"),
        ("hive", {}, "URI missing"),
    ],
)
def test_an_unreachable_catalog_is_named(tmp_path: Path, kind: str, properties: dict[str, str], found: str) -> None:
    error = refused(tmp_path, kind, properties)
    assert isinstance(error, TableError)
    assert "shop.item: the catalog cannot be read" in error.what
    assert found in str(error.found)
    assert "[target.catalog_properties]" in str(error.todo)
    assert "sesame" not in str(error)


@pytest.mark.parametrize(("kind", "module", "extra"), [("hive", "thrift", "hive"), ("glue", "boto3", "s3")])
def test_a_package_that_is_missing_is_said_with_the_extra_that_has_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, module: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)  # type: ignore[arg-type]  # so the import fails
    monkeypatch.delitem(sys.modules, f"pyiceberg.catalog.{kind}", raising=False)
    error = refused(tmp_path, kind, {"uri": "thrift://127.0.0.1:9"})
    assert isinstance(error, SetupError)
    assert f"'lakeward[{extra}]'" in str(error.todo)


def test_what_thrift_raises_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client of Hive is of an extra that the tests do without."""
    refused_by_thrift = type("TException", (Exception,), {})
    thrift = ModuleType("thrift.Thrift")
    monkeypatch.setattr(thrift, "TException", refused_by_thrift, raising=False)
    monkeypatch.setitem(sys.modules, "thrift.Thrift", thrift)

    def fails(*_: object, **__: object) -> None:
        raise refused_by_thrift("Could not connect to any of [('127.0.0.1', 9)]")

    monkeypatch.setattr("lakeward.adapters.formats.iceberg.metadata.catalog.load_catalog", fails)
    assert "Could not connect" in str(refused(tmp_path, "hive", {}).found)
