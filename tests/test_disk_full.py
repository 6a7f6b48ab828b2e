"""A full disk gives an error that says so, and the table does not change."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
from decimal import Decimal
from pathlib import Path
from random import Random

import pytest
from project import Project

pytestmark = pytest.mark.spark

LIMIT = 2_000_000
"""The greatest size of a file in bytes: more than SQLite's library and all metadata, less than the second batch."""
ROWS = 100_000


def small_disk() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (LIMIT, LIMIT))


@pytest.mark.long
def test_a_batch_without_disk_space_does_not_change_the_table(project: Project) -> None:
    project.put("LOAD00000001.csv", "1,a,1.00\n")
    project.run()
    random = Random(0)
    rows = "".join(f"I,{number},{random.randbytes(32).hex()},1.00\n" for number in range(2, ROWS))
    project.put("20261121-100000000.csv", rows)
    command = [str(Path(sys.executable).with_name("lakeward")), "run", "--once", "--json"]
    ended = subprocess.run(
        command, cwd=project.folder, capture_output=True, text=True, check=False, preexec_fn=small_disk, timeout=300
    )
    assert ended.returncode == 4, ended.stdout + ended.stderr
    [table] = json.loads(ended.stdout)["tables"]
    assert "there is no space left" in table["error"]["found"]
    assert project.rows() == [(1, "a", Decimal("1.00"))]
    assert project.run()["shop.item"]["counts"]["applied"] == ROWS - 2
