"""Versions that somebody else has altered are found, by `verify`, and by the batch that meets them.

The table is `ordered`: one that remembers its events makes the versions of a key anew from those.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import pytest
from altering import Row, alter
from project import Project
from pyspark.sql import SparkSession

from lakeward.core.history.version_checks import VersionRule

pytestmark = pytest.mark.spark

TABLE = """
[tables."shop.item"]
key = ["id"]
mode = "history"
lateness = "ordered"
columns = { id = "int", city = "string" }
"""
DAYS = ("01", "03", "05")


def day(number: int) -> datetime:
    return datetime(2026, 11, number, 10, tzinfo=UTC)


def reopened(versions: Sequence[Row]) -> None:
    versions[0].update(valid_to=None, is_current=True)


def prolonged(versions: Sequence[Row]) -> None:
    versions[0].update(valid_to=day(4))


def alike(versions: Sequence[Row]) -> None:
    versions[1].update(city=versions[0]["city"])


def emptied(versions: Sequence[Row]) -> None:
    versions[0].update(valid_to=day(1))


def undated(versions: Sequence[Row]) -> None:
    versions[1].update(valid_from=None)


def ended_and_current(versions: Sequence[Row]) -> None:
    versions[2].update(valid_to=day(20))


def shortened(versions: Sequence[Row]) -> None:
    """Leave a gap: what a delete leaves, too."""
    versions[0].update(valid_to=day(2))


def untouched(_: Sequence[Row]) -> None:
    pass


ALTERED: Sequence[tuple[Callable[[Sequence[Row]], None], VersionRule | None, str | None]] = [
    (reopened, VersionRule.TWO_CURRENT, "2026-11-01 10:00:00"),
    (prolonged, VersionRule.OVERLAP, "2026-11-03 10:00:00"),
    (alike, VersionRule.EQUAL, "2026-11-03 10:00:00"),
    (emptied, VersionRule.EMPTY, "2026-11-01 10:00:00"),
    (undated, VersionRule.UNDATED, None),
    (ended_and_current, VersionRule.CONTRARY, "2026-11-05 10:00:00"),
    (shortened, None, None),
    (untouched, None, None),
]
KEYS = range(1, len(ALTERED) + 1)
FOUND_BY_A_BATCH = (VersionRule.TWO_CURRENT, VersionRule.OVERLAP, VersionRule.EQUAL, VersionRule.EMPTY)


def put(project: Project, number: str) -> None:
    at = f"2026-11-{number} 10:00:00.000000"
    lines = "".join(f"U,{at},{key},city {number}\n" for key in KEYS)
    project.put(f"202611{number}-100000000.csv", lines)


def altered(rows: Sequence[Row]) -> None:
    """Do to the versions of each key what its place in the list says."""
    for key, (change, *_) in zip(KEYS, ALTERED, strict=True):
        change([row for row in rows if row["id"] == key])


def verified(project: Project, code: int) -> Any:
    ended = project.call("verify", "shop.item", "--history", "--json")
    assert ended.code == ended.document["exit_code"] == code, ended.out + ended.err
    return ended.document["tables"][0]


@pytest.fixture
def shop(project: Project) -> Project:
    """A history of which each key has three versions."""
    project.configure(TABLE, source='timestamp_column = "at"')
    for number in DAYS:
        put(project, number)
    project.run()
    return project


@pytest.mark.parametrize("project", ["iceberg", pytest.param("delta", marks=pytest.mark.long)], indirect=True)
@pytest.mark.filterwarnings("ignore:Merge on read is not yet supported")
def test_altered_versions_are_detected_and_wait_with_their_event(shop: Project, spark: SparkSession) -> None:
    right = {"table": "shop.item", "keys": len(KEYS), "versions": 3 * len(KEYS), "examples": []}
    none = {rule.name.lower(): 0 for rule in VersionRule}
    assert verified(shop, 0) == {**right, "broken": none}
    rows = alter(shop, spark, altered)
    broken = [(key, rule, begins) for key, (_, rule, begins) in zip(KEYS, ALTERED, strict=True) if rule]
    found = verified(shop, 3)
    assert found["broken"] == {**none, **{rule.name.lower(): 1 for _, rule, _ in broken}}
    assert sorted((e["key"], e["rule"], e["begins"]) for e in found["examples"]) == [
        ([str(key)], rule.name.lower(), begins) for key, rule, begins in broken
    ]
    put(shop, "07")
    shop.run(3)
    met = [one for one in broken if one[1] in FOUND_BY_A_BATCH]
    entries = sorted((e["key"], e["reason"], e["detail"]) for e in shop.entries())
    assert entries == [([str(k)], "history", f"{rule.value} (valid_from = {at})") for k, rule, at in met]
    held = {key for key, *_ in met}
    now = shop.rows(columns=("id", "city"))
    assert {key for key, city in now if city == "city 07"} == {key for key in KEYS if key not in held}
    assert len([row for row in now if row[0] in held]) == len([row for row in rows if row["id"] in held])


@pytest.mark.filterwarnings("ignore:Merge on read is not yet supported")
def test_waiting_events_of_such_versions_are_in_quarantine(shop: Project, spark: SparkSession) -> None:
    shop.put("20261106-100000000.csv", "X,2026-11-06 10:00:00.000000,1,odd\n")
    put(shop, "07")
    assert shop.run(3)["shop.item"]["counts"]["waiting"] == 1
    alter(shop, spark, lambda rows: reopened([row for row in rows if row["id"] == 1]))
    given_up = shop.call("quarantine", "discard", "shop.item", "1")
    assert given_up.code in (0, 3), given_up.err
    (entry,) = shop.entries()
    assert (entry["object"], entry["row"], entry["reason"]) == ("20261107-100000000.csv", 1, "history")
    assert entry["detail"] == f"{VersionRule.TWO_CURRENT.value} (valid_from = 2026-11-01 10:00:00)"
    assert json.loads(entry["text"])["city"] == "city 07"
    assert shop.call("quarantine", "fix", "shop.item", "1").code == 0
    repaired = shop.folder / "shop.item.fix.toml"
    written = repaired.read_text("utf-8").replace('# "id" = ""', '"id" = "1"')
    written = written.replace('# "city" = ""', '"city" = "city 07"')
    repaired.write_text(written, "utf-8")
    selection = shop.call("quarantine", "fix", "shop.item", "--from", repaired.name)
    assert selection.code == 0, selection.err
    replayed = shop.call("quarantine", "replay", "shop.item", "1")
    assert "20261107-100000000.csv, row 1 meets versions of its key that are not right" in replayed.err
