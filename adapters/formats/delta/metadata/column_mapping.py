"""The names of Delta's column mapping, by which a column keeps its name and id in files when it is renamed.

Format: github.com/delta-io/delta/blob/master/PROTOCOL.md#column-mapping
"""

from __future__ import annotations

from typing import Final

MODE: Final = "delta.columnMapping.mode"
"""The property of a table with the mode: `none`, `name` or `id`."""

ID: Final = "delta.columnMapping.id"
PHYSICAL_NAME: Final = "delta.columnMapping.physicalName"
"""The metadata of a column with its id, and its name in files."""
