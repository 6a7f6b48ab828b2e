"""The glossary is correct: each term is defined where it says, and no replaced word is a name in the code."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator

import pytest
from pages import codes, sections, tables
from repository import ROOT, modules

PAGE = "docs/glossary.md"

REPLACED = frozenset(
    {"Ack", "Belief", "Beside", "Books", "Care", "Cared", "Companion", "Foreign", "Keeping", "Left", "Look"}
    | {"Mended", "Past", "Recalled", "Remaking", "Scout", "Shelf", "Standing", "Stray", "Strays", "Taken"}
    | {"Term", "Theirs", "Turns", "Twin", "Undone", "Word", "books", "care", "companion", "hands", "mend"}
    | {"mended", "recalled", "scout", "steady", "strays", "taken", "twins", "undone", "unwatched"}
    | {"Told", "Turn", "cared", "doubts", "had", "look", "shelf", "standing", "told", "turn"}
)
"""Names that this code had before the glossary."""


def _definitions() -> Iterator[tuple[str, str]]:
    """Yield each name of the column `defined by` with the folder or module that follows it."""
    for section in sections(PAGE).values():
        for row in (row for table in tables(section) for row in table):
            pending: list[str] = []
            for name in codes(row["defined by"]):
                if "/" in name:
                    yield from ((term.split(".")[0], name) for term in pending)
                    pending = []
                else:
                    pending.append(name)


@pytest.mark.parametrize(("name", "place"), sorted(set(_definitions())))
def test_a_term_is_defined_where_the_page_says(name: str, place: str) -> None:
    path = ROOT / place
    files = [*path.rglob("*.py")] if path.is_dir() else [path.with_suffix(".py")]
    assert any(re.search(rf"\b{re.escape(name)}\b", file.read_text("utf-8")) for file in files)


def test_no_replaced_word_is_a_name_in_the_code() -> None:
    violations = []
    for module in modules():
        text = (ROOT / module).read_text("utf-8")
        if not REPLACED & {*re.findall(r"\w+", text)}:
            continue  # to parse each module takes seconds
        tokens = tokenize.generate_tokens(io.StringIO(text).readline)
        names = {token.string for token in tokens if token.type == tokenize.NAME}
        names |= {node.id for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Name)}  # those in f-strings
        violations += [f"{module}: {name}" for name in sorted(names & REPLACED)]
    assert violations == []
