"""The pages of the documentation, taken apart: sections, tables, fences, links."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from repository import ROOT

DOCS = ROOT / "docs"


def pages() -> list[Path]:
    top = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "CHANGELOG.md"]
    return [page.relative_to(ROOT) for page in [*top, *sorted(DOCS.rglob("*.md"))]]


def text(page: str | Path) -> str:
    return (ROOT / page).read_text("utf-8")


@dataclass(frozen=True)
class Fence:
    """A block of code: its language, the rest of that line, and its content."""

    language: str
    name: str
    content: str


def fences(page: str | Path, language: str | None = None) -> list[Fence]:
    matches = re.findall(r"^```(\w*) *(.*)\n((?:.*\n)*?)```$", text(page), re.MULTILINE)
    return [Fence(*parts) for parts in matches if language in (None, parts[0])]


def prose(page: str | Path) -> str:
    """Return a page without its blocks of code."""
    return re.sub(r"^```.*\n(?:.*\n)*?```$", "", text(page), flags=re.MULTILINE)


def sections(page: str | Path, level: int = 2) -> Mapping[str, str]:
    """Return the text under each heading of a level, up to the next heading of this or a higher level."""
    parts = re.split(rf"^(#{{1,{level}}}) (.+)$", prose(page), flags=re.MULTILINE)[1:]
    triples = zip(parts[::3], parts[1::3], parts[2::3], strict=True)
    return {heading: body for signs, heading, body in triples if len(signs) == level}


def tables(markdown: str) -> Iterator[list[dict[str, str]]]:
    """Return the tables, each row by heading."""
    for block in re.findall(r"(?:^\|.*\|$\n?)+", markdown, re.MULTILINE):
        head, _, *rows = [_cells(line) for line in block.splitlines()]
        yield [dict(zip(head, row, strict=True)) for row in rows]


def _cells(line: str) -> Sequence[str]:
    return [cell.strip().replace(r"\|", "|") for cell in re.split(r"(?<!\\)\|", line)[1:-1]]


def codes(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def create_table(page: str | Path) -> dict[str, Any]:
    """Return the parameters of the request that `aws dynamodb create-table` on a page makes."""
    (command,) = [block.content for block in fences(page, "console") if "aws dynamodb" in block.content]
    words = shlex.split(command.removeprefix("$ ").replace("\\\n", " "))
    assert words[:3] == ["aws", "dynamodb", "create-table"]
    options: dict[str, list[str]] = {}
    for word in words[3:]:
        if word.startswith("--"):
            options[word] = []
        else:
            options[[*options][-1]].append(word)
    (table,), (billing,) = options["--table-name"], options["--billing-mode"]
    indexes = options.get("--local-secondary-indexes")
    return {
        "TableName": table,
        "BillingMode": billing,
        "AttributeDefinitions": _pairs(options["--attribute-definitions"]),
        "KeySchema": _pairs(options["--key-schema"]),
        **({"LocalSecondaryIndexes": json.loads(indexes[0])} if indexes else {}),
    }


def _pairs(words: Sequence[str]) -> list[dict[str, str]]:
    """Read `AttributeName=lease,KeyType=HASH` as `aws` does."""
    return [dict(pair.split("=") for pair in word.split(",")) for word in words]


def links(page: str | Path) -> Iterator[str]:
    """Return the targets of the links of a page."""
    yield from re.findall(r"\]\(([^)\s]+)\)", prose(page))


def anchors(page: str | Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", prose(page), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def as_compared(printed: str) -> list[str]:
    """Remove what differs between runs: durations, the width of their columns, and names of commits."""
    words = re.sub(r"\d+(\.\d)? (s|min|h|d)\b", "(a while)", printed)
    words = re.sub(r"visible since .* \(batch (\d+), commit \d+\)", r"visible since (a time) (batch \1)", words)
    return [re.sub(r" {2,}", "  ", line.rstrip()) for line in words.strip().splitlines()]
