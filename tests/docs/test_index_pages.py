"""Every page of docs/ is two clicks from the front page: by the index of its section."""

from __future__ import annotations

import runpy
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pages import DOCS, links
from repository import ROOT

SECTIONS = sorted(folder for folder in DOCS.iterdir() if any(folder.glob("*.md")))
HOOKS = runpy.run_path(str(DOCS / "mkdocs_hooks.py"))


def files_of(section: Path) -> set[Path]:
    return {path for kind in ("*.md", "*.ipynb") for path in section.rglob(kind)}


def linked(index: Path) -> Counter[Path]:
    return Counter((index.parent / link.partition("#")[0]).resolve() for link in links(index))


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.name)
def test_the_index_of_a_section_has_each_of_its_pages_once(section: Path) -> None:
    listed = {path: times for path, times in linked(section / "README.md").items() if path.is_relative_to(section)}
    assert listed == {path: 1 for path in files_of(section) if path != section / "README.md"}


def test_the_front_page_has_each_section_and_each_page_outside_of_sections() -> None:
    wanted = {section / "README.md" for section in SECTIONS} | set(DOCS.glob("*.md")) - {DOCS / "README.md"}
    assert wanted <= set(linked(DOCS / "README.md"))


def in_navigation(item: Any) -> Iterator[str]:
    if isinstance(item, str):
        yield item
    else:
        for child in item.values() if isinstance(item, dict) else item:
            yield from in_navigation(child)


def test_the_site_has_each_page_once_in_its_navigation() -> None:
    pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    assert Counter(in_navigation(HOOKS["navigation"]())) == Counter([*pages, "CHANGELOG.md", "CONTRIBUTING.md"])


@pytest.mark.parametrize(
    ("link", "repository", "expected"),
    [
        ("[a](../reference/settings.md#keys)", None, "[a](../reference/settings.md#keys)"),
        ("[a](../decisions)", None, "[a](../decisions/README.md)"),
        ("[a](../../CHANGELOG.md)", None, "[a](../CHANGELOG.md)"),
        ("[a](../../README.md#what-it-promises)", None, "[a](../README.md)"),
        ("[a](../../core/plan.py)", None, "a (`core/plan.py`)"),
        ("[`core/plan.py`](../../core/plan.py)", None, "`core/plan.py`"),
        ("[a](../../core/plan.py)", "https://b.example/c", "[a](https://b.example/c/blob/main/core/plan.py)"),
        ("[a](https://iceberg.apache.org), [b](#here)", None, "[a](https://iceberg.apache.org), [b](#here)"),
    ],
)
def test_links_of_a_page_lead_somewhere_on_the_site(link: str, repository: str | None, expected: str) -> None:
    page = ROOT / "docs" / "how-to" / "verify.md"
    assert HOOKS["with_links_of_the_site"](link, page, repository) == expected
    outside = HOOKS["with_links_of_the_site"]("[a](docs/how-to/verify.md)", ROOT / "CHANGELOG.md", None)
    assert outside == "[a](how-to/verify.md)"
