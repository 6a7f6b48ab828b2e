"""In which folders tables may lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakeward.adapters.formats.delta_rs.locations import Places
from lakeward.adapters.formats.iceberg.metadata.catalog import IcebergCatalog
from lakeward.adapters.formats.iceberg.options import IcebergOptions
from lakeward.core.errors import ConfigError


@pytest.mark.parametrize(
    ("name", "found"), [("lake#1", "#"), ("lake?x", "?"), ("a%20b", "%20"), ("lake[1]", "["), ("b]", "]")]
)
def test_a_path_that_is_another_in_a_url_is_refused(tmp_path: Path, name: str, found: str) -> None:
    with pytest.raises(ConfigError, match="cannot hold tables") as error:
        IcebergCatalog(IcebergOptions(warehouse="lake"), tmp_path / name)
    assert f"its path has '{found}'" in str(error.value.found)
    with pytest.raises(ConfigError, match="cannot hold tables"):
        Places(name, "{schema}", tmp_path)


@pytest.mark.parametrize("name", ["my lake", "100%", "ü", "a+b", "a&b=c", "a;b", "a:b", "%zz"])
def test_any_other_path_is_taken(tmp_path: Path, name: str) -> None:
    assert IcebergCatalog(IcebergOptions(warehouse="lake"), tmp_path / name).folder == tmp_path / name / "lake"
    assert str(Places(name, "{schema}", tmp_path).folder) == str(tmp_path / name)
