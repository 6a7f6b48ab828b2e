"""Suggestions for misspelt words."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest(word: str, words: Iterable[str]) -> str | None:
    """Return a question with the most similar known word, or None.

    >>> nearest("waerhouse", ["warehouse", "catalog"])
    "Did you mean 'warehouse'?"
    """
    near = difflib.get_close_matches(word, list(words), n=1)
    return f"Did you mean {near[0]!r}?" if near else None
