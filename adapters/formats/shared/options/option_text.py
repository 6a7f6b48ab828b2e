"""Options of tables as texts for people."""

from __future__ import annotations

from collections.abc import Sequence


def option_text(value: object) -> str:
    """Return the value of an option as a text.

    >>> option_text(["day(at)", "id"]), option_text([]), option_text(4)
    ('day(at), id', 'none', '4')
    """
    return (
        ", ".join(map(str, value)) or "none"
        if isinstance(value, Sequence) and not isinstance(value, str)
        else str(value)
    )
