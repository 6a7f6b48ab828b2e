"""The setting `visibility`: the time for which a queue hides received notices."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Final, TypeAlias

from pydantic import AfterValidator

from lakeward.core.text.durations import check_duration

LEAST: Final = "1m"
"""The least visibility. It is several times the interval in which a process extends it."""

_MOST: Final = "12h"
"""The greatest visibility: the limit of SQS."""

Visibility: TypeAlias = Annotated[
    str, AfterValidator(partial(check_duration, least=LEAST, most=_MOST, example="5m"))
]
"""A duration such as `5m`."""
