"""What a person made of a row in quarantine, as its table keeps it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from lakeward.adapters.spark.sql import names
from lakeward.core.events import UNSET, Operation
from lakeward.core.ports import RepairedRow


def text_of(repaired: RepairedRow) -> str:
    """Return what a person mended as it is kept, as JSON; cells that were not sent stand apart."""
    content = {
        "cells": {name: cell for name, cell in repaired.cells.items() if cell is not UNSET},
        "not_sent": [name for name, cell in repaired.cells.items() if cell is UNSET],
        "time": repaired.time,
        "sequence": repaired.sequence,
        "old_key": repaired.old_key,
    }
    return json.dumps(content)


def mended_of(row: Mapping[str, Any], renames: Mapping[str, str]) -> RepairedRow:
    """Return what a person made of a row, by the names that its columns have now."""
    content = json.loads(row[names.TEXT])
    cells = content["cells"] | dict.fromkeys(content.get("not_sent", ()), UNSET)
    cells = {renames.get(name, name): cell for name, cell in cells.items()}
    given = {name: content.get(name) for name in ("time", "sequence", "old_key")}
    if given["old_key"] is not None:
        given["old_key"] = {renames.get(name, name): cell for name, cell in given["old_key"].items()}
    return RepairedRow(operation=Operation(row[names.OPERATION]), cells=cells, **given)
