"""The setting for the namespace of a table, which may refer to its names at the source."""

from __future__ import annotations

import re
from typing import Annotated, TypeAlias

from pydantic import AfterValidator


def _names_a_namespace(value: str) -> str:
    unknown = [name for name in re.findall(r"\{(.*?)\}", value) if name not in ("schema", "table")]
    if unknown or not value:
        raise ValueError("may hold {schema} and {table}, and must not be empty")
    return value


Namespace: TypeAlias = Annotated[str, AfterValidator(_names_a_namespace)]
"""A namespace. It may hold `{schema}` and `{table}`."""
