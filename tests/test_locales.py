"""Names and texts of any script, in processes without a locale, as schedulers start them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from delta_lake import by_duckdb
from hudi_lake import by_hudi_rs
from outside import by_pyiceberg

pytestmark = [pytest.mark.spark, pytest.mark.long]

SCRIPT = "from lakeward.entrypoints.cli import run; run()"
SETTINGS = """
[pipeline]
name = "shop"
[source]
kind = "files"
path = "größen/入"
format = "csv"
operation = {{ column = "op", delete = ["D"] }}
[target]
kind = "{kind}"
warehouse = "see/湖"
[tables."shop.item"]
key = ["id"]
columns = {{ id = "int", stadt = "string" }}
partition_by = ["stadt"]
"""
FIRST = "op,id,stadt\nI,1,Köln\nI,2,東京\nI,3,Ω é/=%\n"
SECOND = "op,id,stadt\nU,1,東京\nD,3,\nI,4,ascii\nU,2,Köln\n"


def run(folder: Path, locale: str) -> None:
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("LC_", "LANG"))}
    ended = subprocess.run(
        [sys.executable, "-c", SCRIPT, "run", "--json", "--log", "off"],
        cwd=folder,
        env={**environment, "LC_ALL": locale},
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr


@pytest.mark.parametrize("kind", ["iceberg", "delta", pytest.param("hudi", marks=pytest.mark.hudi)])
def test_names_of_files_and_partitions_do_not_depend_on_the_locale(tmp_path: Path, kind: str) -> None:
    """With an uninstalled locale such as `xx_XX.UTF-8`, as in a container, the C library knows only ASCII."""
    (tmp_path / "lakeward.toml").write_text(SETTINGS.format(kind=kind), "utf-8")
    landing = tmp_path / "größen/入/shop/item"
    landing.mkdir(parents=True)
    for name, content, locale in (("1-größe.csv", FIRST, "C"), ("2-入.csv", SECOND, "xx_XX.UTF-8")):
        (landing / name).write_text(content, "utf-8")
        run(tmp_path, locale)
    lake = tmp_path / "see/湖"
    if kind == "iceberg":
        found = by_pyiceberg(lake, "shop", "item", ("id", "stadt"))
    else:
        found = by_hudi_rs(lake / "shop/item") if kind == "hudi" else by_duckdb(str(lake / "shop/item"))
    rows = sorted((row["id"], row["stadt"]) for row in found.to_pylist())
    assert rows == [(1, "東京"), (2, "Köln"), (4, "ascii")]
    assert [file.name for file in (tmp_path / "see").iterdir()] == ["湖"]
