"""An operator's repair of a quarantined row, as the quarantine table stores it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lakeward.adapters.spark.sql import names
from lakeward.core.events import UNSET, Operation
from lakeward.core.ports import RepairedRow


def repair_text(repaired: RepairedRow) -> str:
    """Return a repair as JSON. Cells that were not sent are listed in `not_sent`."""
    content = {
        "cells": {name: cell for name, cell in repaired.cells.items() if cell is not UNSET},
        "not_sent": [name for name, cell in repaired.cells.items() if cell is UNSET],
        "time": repaired.time,
        "sequence": repaired.sequence,
        "old_key": repaired.old_key,
    }
    return json.dumps(content)


def read_repair(row: Mapping[str, Any], renames: Mapping[str, str]) -> RepairedRow:
    """Read the repair of a row, with the names that its columns have now."""
    content = json.loads(row[names.TEXT])
    cells = content["cells"] | dict.fromkeys(content.get("not_sent", ()), UNSET)
    cells = {renames.get(name, name): cell for name, cell in cells.items()}
    properties = {name: content.get(name) for name in ("time", "sequence", "old_key")}
    if properties["old_key"] is not None:
        properties["old_key"] = {renames.get(name, name): cell for name, cell in properties["old_key"].items()}
    return RepairedRow(operation=Operation(row[names.OPERATION]), cells=cells, **properties)
