"""How tables are kept in shape as the settings write it, and how durations are written there."""

from __future__ import annotations

import re
from typing import Annotated, Final

from pydantic import AfterValidator, BaseModel, ByteSize, ConfigDict, Field, NonNegativeInt, PositiveInt

from lakeward.core.ports import MaintenancePolicy


class Strict(BaseModel):
    """A table of the settings that knows all its keys."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


DURATION: Final = re.compile(r"([1-9][0-9]*) *(s|m|h|d)")
_MICROS: Final = {"s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}


def micros(duration: str) -> int:
    """Return a duration of the settings in microseconds; "0" is none.

    >>> micros("2 h"), micros("0")
    (7200000000, 0)
    """
    found = DURATION.fullmatch(duration)
    return 0 if found is None else int(found[1]) * _MICROS[found[2]]


def _age(value: str) -> str:
    if value != "never" and not DURATION.fullmatch(value):
        raise ValueError('must be a duration such as "5d" or "12h", or "never"')
    return value


def _days(value: str) -> str:
    if value != "never" and micros(value) < _MICROS["d"]:
        raise ValueError(
            'must be "1d" or longer, so that no file of a writer is taken for one of nobody, or "never"'
        )
    return value


class MaintainSettings(Strict):
    """What `lakeward maintain` does to a table; the size of files is about what they become."""

    deleted_rows: float = Field(
        0.1,
        ge=0,
        le=1,
        description="The share of deleted rows from which a data file is written anew, without them; `0` is never.",
    )
    small_files: NonNegativeInt = Field(
        20,
        description="The number of small files of a partition from which they are written into larger ones; `0` is "
        "never.",
    )
    file_size: ByteSize = Field(
        ByteSize(128 * 1024 * 1024),
        gt=0,
        description="How large those become; small is what has less than three quarters of it.",
    )
    snapshots: Annotated[str, AfterValidator(_age)] = Field(
        "5d", description="The age from which snapshots expire: a duration, or `never`."
    )
    keep_last: PositiveInt = Field(
        1,
        description="So many snapshots stay, whatever their age; refused for Delta Lake, where age alone decides, "
        "and beyond what each write of Hudi leaves.",
    )
    orphans: Annotated[str, AfterValidator(_days)] = Field(
        "3d", description="The age from which files that no snapshot names are removed: at least `1d`, or `never`."
    )


def maintenance_policy(settings: MaintainSettings) -> MaintenancePolicy:
    """Return the maintenance policy of a table."""
    return MaintenancePolicy(
        deleted=settings.deleted_rows or None,
        small=settings.small_files or None,
        file_size=settings.file_size,
        keep=None if settings.snapshots == "never" else micros(settings.snapshots),
        keep_last=settings.keep_last,
        orphans=None if settings.orphans == "never" else micros(settings.orphans),
    )
