"""Settings of the maintenance of a table, and their conversion to a maintenance policy."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, ByteSize, Field, NonNegativeInt, PositiveInt

from lakeward.core.ports import MaintenancePolicy
from lakeward.core.text.durations import DURATION, micros_of
from lakeward.entrypoints.settings.models.values import Strict


def _check_age(value: str) -> str:
    if value != "never" and not DURATION.fullmatch(value):
        raise ValueError('must be a duration such as "5d" or "12h", or "never"')
    return value


def _check_days(value: str) -> str:
    if value != "never" and micros_of(value) < micros_of("1d"):
        raise ValueError('must be "1d" or longer, or "never": files of a running write look like orphans')
    return value


class MaintainSettings(Strict):
    """What `lakeward maintain` does to a table."""

    deleted_rows: float = Field(
        0.1,
        ge=0,
        le=1,
        description="The share of deleted rows, from 0 to 1, at which a data file is rewritten without them. `0` "
        "rewrites none.",
    )
    small_files: NonNegativeInt = Field(
        20,
        description="The number of small files in a partition at which they are compacted into larger ones. `0` "
        "compacts none. A run that follows merges those of Iceberg tables: see docs/how-to/follow.md.",
    )
    file_size: ByteSize = Field(
        ByteSize(128 * 1024 * 1024),
        gt=0,
        description="The approximate size of a compacted file. A file is small if it has less than three quarters "
        "of this size.",
    )
    snapshots: Annotated[str, AfterValidator(_check_age)] = Field(
        "5d", description="The age at which snapshots expire: a duration such as `12h`, or `never`."
    )
    keep_last: PositiveInt = Field(
        1,
        description="The number of newest snapshots that are kept at any age. Delta Lake refuses it, since there "
        "only the age decides. Hudi refuses more than each write leaves.",
    )
    orphans: Annotated[str, AfterValidator(_check_days)] = Field(
        "3d",
        description="The age at which files that no snapshot refers to are removed: at least `1d`, or `never`.",
    )


def maintenance_policy(settings: MaintainSettings) -> MaintenancePolicy:
    """Return the maintenance policy of a table."""
    return MaintenancePolicy(
        deleted=settings.deleted_rows or None,
        small=settings.small_files or None,
        file_size=settings.file_size,
        keep=None if settings.snapshots == "never" else micros_of(settings.snapshots),
        keep_last=settings.keep_last,
        orphans=None if settings.orphans == "never" else micros_of(settings.orphans),
    )
