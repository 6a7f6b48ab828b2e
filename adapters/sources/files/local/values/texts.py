"""Texts of JSON values in plain Python, as Spark's casts read them."""

from __future__ import annotations

import re
from typing import Any, Final

from lakeward.adapters.sources.files.local.values.documents import text_of
from lakeward.adapters.spark.frames.local_casts import SparkNeeded

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_NUMBER_TEXT: Final = re.compile(r"-?[0-9]{1,38}")


def number(text: str | None) -> int | None:
    """Return the whole number of up to 38 digits in a text; None if the text is none."""
    return int(text) if text is not None and _NUMBER_TEXT.fullmatch(text) else None


def plain_text(value: Any) -> str:
    """Return the text of a value; raises SparkNeeded if it has a control character."""
    text = text_of(value) or ""
    refuse_control(text)
    return text


def refuse_control(text: str) -> None:
    """Raise SparkNeeded for a text with a control character, which Spark may ignore."""
    if _CONTROL.search(text):
        raise SparkNeeded("a value that is no text has a control character")
