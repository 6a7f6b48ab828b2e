"""Every page of docs/ is found: from the front page to its room, and from the index of the room to the page."""

from __future__ import annotations

import runpy
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pages import DOCS, links
from repository import ROOT

ROOMS = sorted(folder for folder in DOCS.iterdir() if any(folder.glob("*.md")))
HOOKS = runpy.run_path(str(DOCS / "mkdocs_hooks.py"))


def files_of(room: Path) -> set[Path]:
    return {path for kind in ("*.md", "*.ipynb") for path in room.rglob(kind)}


def linked(index: Path) -> Counter[Path]:
    return Counter((index.parent / link.partition("#")[0]).resolve() for link in links(index))


@pytest.mark.parametrize("room", ROOMS, ids=lambda room: room.name)
def test_the_index_of_a_room_has_each_of_its_pages_once(room: Path) -> None:
    listed = {path: times for path, times in linked(room / "README.md").items() if path.is_relative_to(room)}
    assert listed == {path: 1 for path in files_of(room) if path != room / "README.md"}


def test_the_front_page_has_each_room_and_each_page_outside_of_rooms() -> None:
    wanted = {room / "README.md" for room in ROOMS} | set(DOCS.glob("*.md")) - {DOCS / "README.md"}
    assert wanted <= set(linked(DOCS / "README.md"))


def in_navigation(item: Any) -> Iterator[str]:
    if isinstance(item, str):
        yield item
    else:
        for one in item.values() if isinstance(item, dict) else item:
            yield from in_navigation(one)


def test_the_site_has_each_page_once_in_its_navigation() -> None:
    pages = {str(path.relative_to(DOCS)) for path in DOCS.rglob("*.md")}
    assert Counter(in_navigation(HOOKS["navigation"]())) == Counter([*pages, "CHANGELOG.md", "CONTRIBUTING.md"])


@pytest.mark.parametrize(
    ("link", "repository", "shown"),
    [
        ("[a](../reference/settings.md#keys)", None, "[a](../reference/settings.md#keys)"),
        ("[a](../decisions)", None, "[a](../decisions/README.md)"),
        ("[a](../../CHANGELOG.md)", None, "[a](../CHANGELOG.md)"),
        ("[a](../../README.md#what-it-promises)", None, "[a](../README.md)"),
        ("[a](../../core/plan.py)", None, "a (`core/plan.py`)"),
        ("[`core/plan.py`](../../core/plan.py)", None, "`core/plan.py`"),
        ("[a](../../core/plan.py)", "https://code.example/lakeward", "[a](https://code.example/lakeward/blob/main/core/plan.py)"),
        ("[a](https://iceberg.apache.org), [b](#here)", None, "[a](https://iceberg.apache.org), [b](#here)"),
    ],
)
def test_links_of_a_page_lead_somewhere_on_the_site(link: str, repository: str | None, shown: str) -> None:
    page = ROOT / "docs" / "how-to" / "verify.md"
    assert HOOKS["with_links_of_the_site"](link, page, repository) == shown


def test_links_of_a_page_outside_of_docs_lead_somewhere_on_the_site() -> None:
    assert HOOKS["with_links_of_the_site"]("[a](docs/how-to/verify.md)", ROOT / "CHANGELOG.md", None) == (
        "[a](how-to/verify.md)"
    )
