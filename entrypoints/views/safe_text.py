"""Escape texts from data before they are printed on a terminal.

A file of the source may hold control sequences, which would clear a screen or rename a window.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence

from rich import markup
from rich.text import Text


def printable(words: str) -> str:
    r"""Return a text with its unprintable characters escaped as in JSON.

    >>> printable("\x1b[2J Köln")
    '\\u001b[2J Köln'
    """
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in words)


def escaped(words: str) -> str:
    """Return a text that is safe to use within the markup of rich."""
    return markup.escape(printable(words))


def plain(words: str) -> Text:
    """Return a text that rich prints without interpreting markup."""
    return Text(printable(words))


def arguments(words: Sequence[str]) -> str:
    """Return texts quoted as arguments of a shell command.

    >>> arguments(["a b", "-5"])
    "-- 'a b' -5"
    """
    return shlex.join(["--", *words] if any(word.startswith("-") for word in words) else words)
