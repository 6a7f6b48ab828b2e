"""Checks of a Delta table's options and changes, before anything is written."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from lakeward.adapters.formats.delta.metadata.column_mapping import MODE
from lakeward.adapters.formats.delta.options import TableOptions
from lakeward.adapters.formats.shared.options.refusals import reserved_property, unknown_column
from lakeward.core.dimension import Dimension
from lakeward.core.errors import ConfigError

_RESERVED: Final = (
    "delta.appendOnly",
    "delta.enableDeletionVectors",
    MODE,
    "delta.setTransactionRetentionDuration",  # the table would forget at which batch it is
)

FEED: Final = "delta.enableChangeDataFeed"

_WITHOUT_BOUNDS: Final = {"partition_by": (), "cluster_by": ("boolean",)}
"""Types that an option does not take. Delta clusters by bounds of values, which booleans do not have."""


def check_options(dimension: Dimension, options: TableOptions) -> None:
    """Raise ConfigError for options that the table could not be created with."""
    for name in options.partition_by:
        _check_column(dimension, "partition_by", name)
    for name in options.cluster_by:
        _check_column(dimension, "cluster_by", name)
    for name in options.properties:
        if name in _RESERVED:
            raise reserved_property(
                dimension,
                name,
                "`write_mode` says whether there are deletion vectors; lakeward maps columns where it must, and "
                "asks the table at which batch it is.",
            )


def check_renames(dimension: Dimension, renames: Mapping[str, str], *, has_feed: bool) -> None:
    """Raise ConfigError for renames in a table with a change data feed: Delta does not commit them with rows."""
    if not has_feed or not renames:
        return
    old, new = next(iter(renames.items()))
    raise ConfigError(
        f"{dimension.name}: {old!r} cannot be renamed: the table has a change data feed",
        found=f"it would be called {new!r}, and {FEED} is true",
        todo=f"Take the rename out of the settings. Or let the readers of the feed come to its end, set {FEED} to "
        "'false' in Spark (`ALTER TABLE … SET TBLPROPERTIES`), run, and set it to 'true' again.",
    )


def _check_column(dimension: Dimension, option: str, name: str) -> None:
    column = dimension.schema.find(name)
    if column is None:
        raise unknown_column(dimension, option, name, "Delta knows no transforms: name a column.")
    if column.type.is_nested or column.type.name in ("binary", *_WITHOUT_BOUNDS[option]):
        raise ConfigError(
            f"{dimension.name}: rows cannot be put together by {name!r}",
            found=f"it is {column.type}, under {option}",
            todo="Delta takes columns of plain types: choose another, or none.",
        )
