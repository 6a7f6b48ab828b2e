"""The setting `visibility`: the time for which a queue hides received notices."""

from __future__ import annotations

from functools import partial
from typing import Annotated, TypeAlias

from pydantic import AfterValidator

from lakeward.core.text.durations import check_duration

Visibility: TypeAlias = Annotated[
    str, AfterValidator(partial(check_duration, least="1m", most="12h", example="5m"))
]
"""A duration such as `5m`. The least is several times the interval in which a process extends it, the greatest is
the limit of SQS.
"""
