"""`published.md` and `catalogs.md`: a pipeline can be made of each of their settings, without AWS and Spark."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from glue_catalog import Glue
from pages import fences

from lakeward.core.dimension import TableName
from lakeward.entrypoints.settings.configuration import validate
from lakeward.entrypoints.startup.context import container_of

PUBLISHED, CATALOGS = "docs/how-to/aws/published.md", "docs/how-to/aws/catalogs.md"
OF_PATTERNS = {"dbo": "item", "sales": "item", "shop": "item"}
"""A table that each pattern of the page matches, by its schema."""


def snippets(page: str, *parts: str) -> list[dict[str, Any]]:
    """Return the settings of a page, each completed by these parts of the whole file on it."""
    found = [tomllib.loads(fence.content) for fence in fences(page, "toml")]
    whole = next(snippet for snippet in found if "pipeline" in snippet)
    return [{**{part: whole[part] for part in parts}, **snippet} for snippet in found]


@pytest.mark.parametrize("content", snippets(PUBLISHED, "pipeline", "source", "target"), ids=", ".join)
def test_a_pipeline_can_be_made_of_each_snippet_of_published_jobs(
    content: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"AWS_{name}", "none")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    patterns = [name.split(".")[0] for name in content["tables"] if name.endswith("*")]
    matched_tables = [TableName(schema, OF_PATTERNS[schema]) for schema in patterns]
    configured = validate(content, tmp_path / "lakeward.toml", matched_tables)
    assert configured.tables
    with container_of(configured) as container:
        container.source(), container.target()
        if configured.settings.catalogue is not None:
            container.catalogue()
        for table in configured.tables:
            assert container.job(table=table).dimension.name == table
        for table in configured.joined:
            assert container.join_job(table=table).joined.name == table


@pytest.mark.parametrize("content", snippets(CATALOGS, "pipeline", "source", "target", "tables"), ids=", ".join)
def test_a_pipeline_can_be_made_of_each_catalog(content: dict[str, Any], glue: Glue, tmp_path: Path) -> None:
    with container_of(validate(content, tmp_path / "lakeward.toml")) as container:
        assert container.target()
        assert (container.registration() is None) == ("registration" not in content)
