"""Three processes that nothing keeps apart: each batch is committed by one of them, and applied once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random

import pytest
from test_contract import SqliteLake

from lakeward.core.errors import CommitConflict
from lakeward.plugins.testing import Player
from lakeward.plugins.testing.scripts import pack


@pytest.mark.parametrize("key", [("h", "id"), ()], ids=["with a key", "without a key"])
@pytest.mark.parametrize("seed", range(4))
def test_writers_at_once_make_the_table_that_one_makes(tmp_path: Path, seed: int, key: tuple[str, ...]) -> None:
    """Each has a lake of its own, in one folder, and is told of deliveries as they come."""
    script = pack(Random(seed), 6, key=key)  # noqa: S311  # no secrets
    players = [Player(script, SqliteLake(tmp_path)) for _ in range(3)]
    with ThreadPoolExecutor(len(players)) as pool:
        list(pool.map(deliver_all, players))
    found = players[0].observe()
    assert found.rows == script.truth
    assert found.progress.totals.read == sum(map(len, script.deliveries))


def deliver_all(player: Player) -> None:
    """Let everything arrive, one by one; who loses too many races tries again later."""
    for arrived in range(1, len(player.script.deliveries) + 1):
        player.source.arrived = arrived
        while True:
            try:
                player.apply()
                break
            except CommitConflict:
                continue
