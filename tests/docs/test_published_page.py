"""`docs/how-to/aws/published.md`: its settings are valid, checked without AWS, Spark and a broker."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from pages import fences

from lakeward.core.dimension import TableName
from lakeward.entrypoints.settings.configuration import validate
from lakeward.entrypoints.startup.context import container_of

PAGE = "docs/how-to/aws/published.md"
SNIPPETS = [tomllib.loads(fence.content) for fence in fences(PAGE, "toml")]
COMPLETE = next(snippet for snippet in SNIPPETS if "pipeline" in snippet)
OF_PATTERNS = {"dbo": "item", "sales": "item", "shop": "item"}
"""A table that each pattern of the page matches, by its schema."""


def complete_settings(snippet: dict[str, Any]) -> dict[str, Any]:
    """Return a part of a settings file, completed from the whole one on the page."""
    return {**{part: COMPLETE[part] for part in ("pipeline", "source", "target")}, **snippet}


@pytest.mark.parametrize("snippet", SNIPPETS, ids=", ".join)
def test_a_pipeline_can_be_made_of_each_snippet(
    snippet: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"AWS_{name}", "none")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-central-1")
    content = complete_settings(snippet)
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
