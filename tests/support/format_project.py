"""One table of a format in a pipeline of its own: its settings, its files, and the commands that take it back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from commands import Ended
from project import Project


def item(columns: str, more: str = "", key: str = "id") -> str:
    """Return the settings of the table shop.item, with these columns and this key (names separated by a comma)."""
    keys = ", ".join(f'"{name}"' for name in key.split(",") if name)
    return f'[tables."shop.item"]\nkey = [{keys}]\n{more}\ncolumns = {{ {columns} }}\n'


def path_of(project: Project, table: str = "item") -> Path:
    """Return the folder of a table of the schema `shop`."""
    return project.folder / "lake" / "shop" / table


def put(project: Project, hour: int, *lines: str) -> None:
    project.put(f"20261121-{hour:02}0000000.csv", "".join(f"{line}\n" for line in lines))


def versions(project: Project) -> dict[int, str]:
    """Return the commits that the table can be rolled back to, by batch."""
    listed = project.call("rollback", "shop.item", "--json").document["versions"]
    return {version["batch"]: version["name"] for version in listed}


def roll_back(project: Project, to: str, code: int = 0) -> Ended:
    ended = project.call("rollback", "shop.item", "--to", to, "--json")
    assert ended.code == code, ended.out + ended.err
    return ended


def maintain(project: Project, *arguments: str) -> dict[str, Any]:
    ended = project.call("maintain", "--json", *arguments)
    assert ended.code == 0, ended.out + ended.err
    return dict(ended.document["tables"][0])
