"""Rows, progress and change log are found after hundreds of commits of other writers, some archived by Hudi."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pytest

from lakeward.core.dimension import Within
from lakeward.plugins.testing.bench import expected
from lakeward.plugins.testing.player import Player
from lakeward.plugins.testing.scripts import pack_late

pytestmark = [pytest.mark.spark, pytest.mark.long]

MAKERS = {"iceberg": ("make_lake", 200), "delta": ("make_delta", 200), "hudi": ("make_hudi", 60)}


@pytest.mark.parametrize("kind", ["iceberg", "delta", pytest.param("hudi", marks=pytest.mark.hudi)])
def test_a_table_continues_after_hundreds_of_commits_of_other_writers(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    maker, number = MAKERS[kind]
    lake, left = request.getfixturevalue(maker)(), [number]
    script = pack_late(Random(3), 5, Within(3), bad=0.03)
    player = Player(script, lake, expected=expected(script))

    def commit() -> None:
        for _ in range(left.pop() if left else 0):
            lake.commit_as_another_writer(script.dimension)

    player.between = commit
    assert player.play().moments[-1].rows == script.truth
    assert not left
    if kind == "hudi":
        assert [*tmp_path.rglob(".hoodie/timeline/history/*.parquet")], "Hudi has archived nothing"
