"""Dropping a table with its side tables, as docs/how-to/reload.md says."""

from __future__ import annotations

import shutil

from project import Project
from pyiceberg.catalog import load_catalog

SUFFIXES = ("", "__changes", "__quarantine")


def drop(project: Project, table: str = "item") -> None:
    """Drop a table of the shop and its existing side tables."""
    lake = project.folder / "lake"
    if project.kind == "iceberg":
        catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{lake / 'catalog.db'}", warehouse=str(lake))
        for suffix in SUFFIXES:
            if catalog.table_exists(("shop", f"{table}{suffix}")):
                catalog.purge_table(("shop", f"{table}{suffix}"))
    else:
        for suffix in SUFFIXES:
            if (lake / "shop" / f"{table}{suffix}").exists():
                shutil.rmtree(lake / "shop" / f"{table}{suffix}")
