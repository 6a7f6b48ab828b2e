"""Settings files as the tests write them."""

from __future__ import annotations

import textwrap
from pathlib import Path

MEMORY = """
[pipeline]
name = "shop"
[source]
kind = "memory"
[target]
kind = "memory"
"""
"""The smallest settings: no input, no state, no Spark."""

DMS = """
[pipeline]
name = "shop"
[source]
kind = "dms"
path = "landing/"
[target]
kind = "iceberg"
warehouse = "lake/"
"""
"""Files of DMS and a lake in the folder of the settings."""

ORDERS = """
[tables."shop.orders"]
key = ["id"]
columns = { id = "int" }
"""


def write(folder: Path, *parts: str) -> Path:
    """Write a settings file of these parts and return its path."""
    file = folder / "lakeward.toml"
    file.write_text("".join(textwrap.dedent(part) for part in parts), "utf-8")
    return file
