"""Numbers with their nouns, for people."""

from __future__ import annotations


def format_count(number: int, one: str, many: str | None = None) -> str:
    """Return a number with its noun: `one` for 1, else `many`, which by default is `one` with an `s`.

    Both may have further words behind the noun, which must agree with it.

    >>> format_count(1, "file"), format_count(1200, "row"), format_count(2, "key is", "keys are")
    ('1 file', '1,200 rows', '2 keys are')
    """
    return f"{number:,} {one if number == 1 else many or f'{one}s'}"
