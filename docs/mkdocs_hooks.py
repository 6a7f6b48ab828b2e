"""Hooks of MkDocs for the site of docs/ (`make site`).

The pages are written for readers of the repository. The site differs from it in four things:

- Its navigation is read from the index pages: `docs/README.md` names the sections, the `README.md` of a section
  names its pages, and the headings of that page group them.
- `CHANGELOG.md` and `CONTRIBUTING.md` are pages of the site. A link to any other file outside docs/ leads to the
  repository if LAKEWARD_REPOSITORY has its address, otherwise it becomes text with the path of the file.
- The name of a code block, after its language, is shown as its title.
- An inner list is indented by four spaces, because Python's Markdown requires it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

DOCS = Path(__file__).resolve().parent
ROOT = DOCS.parent
OUTSIDE_PAGES = ("CHANGELOG.md", "CONTRIBUTING.md")

_ENTRY = re.compile(r"^(?:- |\|.*?)\[([^\]]+)\]\(([^)\s#]+\.md)\)")
_FENCE = re.compile(r"(^ *```.*?\n.*?^ *```$)", re.MULTILINE | re.DOTALL)
_INNER_ITEM = re.compile(r"^  (?=- )", re.MULTILINE)
_FENCE_NAME = re.compile(r"^( *```\w+) +(\S.*)$", re.MULTILINE)
_LINK = re.compile(r"\[((?:[^\[\]]|\[[^\[\]]*\])*)\]\(([^)\s]+)\)")


def on_config(config: Any) -> Any:
    """Set the navigation."""
    config.nav = navigation()
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages that are outside of docs/."""
    from mkdocs.structure.files import File  # noqa: PLC0415 - the functions below also work without MkDocs

    for name in OUTSIDE_PAGES:
        files.append(File.generated(config, name, content=(ROOT / name).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, config: Any, **_: Any) -> str:
    """Return a page with the links and code blocks that the site understands."""
    uri = page.file.src_uri
    source = ROOT / uri if uri in OUTSIDE_PAGES else DOCS / uri
    parts = _FENCE.split(markdown)
    prose = [with_links_of_the_site(part, source, config.repo_url) for part in parts[::2]]
    parts[::2] = [_INNER_ITEM.sub("    ", part) for part in prose]
    return _FENCE_NAME.sub(r'\1 title="\2"', "".join(parts))


def navigation() -> list[dict[str, Any]]:
    """Return the navigation: the front page, each section with its pages, then the other pages."""
    sections: list[dict[str, Any]] = []
    single: list[dict[str, Any]] = []
    for _, title, path in entries(DOCS / "README.md"):
        if path.name == "README.md" and path.parent != DOCS:
            sections.append({title: [_uri(path), *_groups(path)]})
        elif path.parent in (DOCS, ROOT):
            single.append({title: _uri(path)})
    return [{"lakeward": "README.md"}, *sections, *single]


def entries(index: Path) -> Iterator[tuple[str, str, Path]]:
    """Yield the heading, the title and the file of each page in an index page."""
    heading = ""
    for line in index.read_text("utf-8").splitlines():
        if line.startswith("## "):
            heading = line.removeprefix("## ")
        elif entry := _ENTRY.match(line):
            yield heading, entry[1], (index.parent / entry[2]).resolve()


def _groups(index: Path) -> list[dict[str, Any]]:
    groups: dict[str, list[dict[str, Any]]] = {}
    for heading, title, path in entries(index):
        groups.setdefault(heading, []).append({title: _uri(path)})
    if len(groups) == 1:
        return [page for pages in groups.values() for page in pages]
    return [{heading: pages} for heading, pages in groups.items()]


def _uri(path: Path) -> str:
    return path.relative_to(DOCS if path.is_relative_to(DOCS) else ROOT).as_posix()


def with_links_of_the_site(markdown: str, source: Path, repository: str | None) -> str:
    """Return prose of the file `source` in which each link leads to a page of the site or to the repository."""

    def replaced(link: re.Match[str]) -> str:
        words, target = link.groups()
        if target.startswith(("#", "http://", "https://", "mailto:")):
            return link[0]
        name, _, anchor = target.partition("#")
        path = (source.parent / name).resolve()
        if path.is_dir() and (path / "README.md").exists():
            path /= "README.md"
        if path == ROOT / "README.md":
            path, anchor = DOCS / "README.md", ""
        if path.is_relative_to(DOCS) or (path.parent == ROOT and path.name in OUTSIDE_PAGES):
            here = (DOCS / _uri(source)).parent
            return f"[{words}]({os.path.relpath(DOCS / _uri(path), here)}{'#' * bool(anchor)}{anchor})"
        inside = path.relative_to(ROOT).as_posix()
        if repository:
            return f"[{words}]({repository.rstrip('/')}/blob/main/{inside})"
        return words if inside in words else f"{words} (`{inside}`)"

    return _LINK.sub(replaced, markdown)
