"""`docs/how-to/aws/catalogs.md`: a pipeline can be made of each of its settings, without AWS and Spark."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
from glue_catalog import Glue
from pages import fences

from lakeward.entrypoints.settings.configuration import validate
from lakeward.entrypoints.startup.context import container_of

PAGE = "docs/how-to/aws/catalogs.md"
SNIPPETS = [tomllib.loads(fence.content) for fence in fences(PAGE, "toml")]
WHOLE = next(snippet for snippet in SNIPPETS if "pipeline" in snippet)


@pytest.mark.parametrize("snippet", SNIPPETS, ids=", ".join)
def test_a_pipeline_can_be_made_of_each_snippet(snippet: dict[str, Any], glue: Glue, tmp_path: Path) -> None:
    parts = ("pipeline", "source", "target", "tables")
    content = {**{part: WHOLE[part] for part in parts}, **snippet}
    with container_of(validate(content, tmp_path / "lakeward.toml")) as container:
        assert container.target()
        assert (container.registration() is None) == ("registration" not in content)
