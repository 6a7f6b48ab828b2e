"""Tables without a key whose rows are found by their images, as each format takes rows away."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from delta_lake import LakeOfDelta
from hudi_lake import LakeOfHudi
from iceberg_lake import LakeOfIceberg

from lakeward.adapters.formats.delta.options import TableOptions as DeltaOptions
from lakeward.adapters.formats.hudi.options import TableOptions as HudiOptions
from lakeward.adapters.formats.iceberg.options import TableOptions as IcebergOptions
from lakeward.plugins.testing.laws.tables.image_match import pack_images
from lakeward.plugins.testing.player import Lake, MemoryLake, Player

pytestmark = [pytest.mark.spark, pytest.mark.long]


def _agree(lake: Lake, seed: int) -> None:
    script = pack_images(Random(seed), 10, bad=0.05)
    expected = Player(script, MemoryLake()).play()
    assert Player(script, lake, expected=expected.moments).play().moments[-1].rows == script.truth


@pytest.mark.parametrize("version", [2, 3])
def test_iceberg_writes_files_without_deleted_rows(make_lake: Callable[..., LakeOfIceberg], version: int) -> None:
    options = IcebergOptions(write_mode="copy-on-write", format_version=version, partition_by=["truncate(3, a)"])
    _agree(make_lake(options), version)


def test_delta_writes_files_anew_without_the_rows_that_go(make_delta: Callable[..., LakeOfDelta]) -> None:
    _agree(make_delta(DeltaOptions(write_mode="copy-on-write", partition_by=["a"])), 5)


@pytest.mark.hudi
@pytest.mark.parametrize("mode", ["merge-on-read", "copy-on-write"])
def test_hudi_takes_rows_away_by_the_places_of_their_facts(make_hudi: Callable[..., LakeOfHudi], mode: str) -> None:
    _agree(make_hudi(HudiOptions(write_mode=mode, partition_by=["a"], buckets=2)), 7)
