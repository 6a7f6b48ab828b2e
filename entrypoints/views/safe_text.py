"""Words of data on their way to a terminal: whatever they hold, they stay words.

A file of the source may hold control sequences, which would clear a screen or rename a window.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Sequence

from rich import markup
from rich.text import Text


def printable(words: str) -> str:
    r"""Return words with everything that a terminal would act on written as JSON writes it.

    >>> printable("\x1b[2J Köln")
    '\\u001b[2J Köln'
    """
    return "".join(c if c.isprintable() else json.dumps(c)[1:-1] for c in words)


def escaped(words: str) -> str:
    """Return words as they stand within rich's markup."""
    return markup.escape(printable(words))


def plain(words: str) -> Text:
    """Return words that rich prints as they are."""
    return Text(printable(words))


def arguments(words: Sequence[str]) -> str:
    """Return words as arguments of a command that a person pastes into a shell.

    >>> arguments(["a b", "-5"])
    "-- 'a b' -5"
    """
    return shlex.join(["--", *words] if any(word.startswith("-") for word in words) else words)
