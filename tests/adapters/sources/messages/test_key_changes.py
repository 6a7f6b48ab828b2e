"""A delete and an insert that are one key change: linked by headers, else as neighbours where values lack."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from feed_reader import FeedContents, read_feed
from pyspark.sql import SparkSession

from lakeward.adapters.sources.messages.message import UNAVAILABLE
from lakeward.core.dimension import ORDERED, Lateness, Within

COLUMNS = {"id": "int", "note": "string", "size": "int"}
DAY = Within(24 * 3600 * 1_000_000)


def message(
    place: int, op: str, key: int, image: dict[str, Any] | None, lsn: int | None = None, **headers: int
) -> str:
    """Return a record; `place` is that of its transaction, too. With an `lsn` it has a block of the transaction."""
    own = {"lsn": place if lsn is None else lsn, "sequence": json.dumps([str(place), str(lsn or place)])}
    source = {**own, "txId": place, "ts_us": place, "schema": "shop", "table": "item"}
    block = {} if lsn is None else {"transaction": {"id": f"{place}:{lsn}", "total_order": 1}}
    images = {"before": {"id": key, "note": "", "size": 0} if op == "d" else None, "after": image}
    told = [
        ["__debezium.context.taskId", "0"],
        *([f"__debezium.{n}", json.dumps({"id": k})] for n, k in headers.items()),
    ]
    value = {**images, **block, "source": source, "op": op}
    return json.dumps({"key": {"id": key}, "value": value, "headers": told})


def tombstone(key: int) -> str:
    return json.dumps({"key": {"id": key}, "value": None})


def row(key: int, size: int, note: str = UNAVAILABLE) -> dict[str, Any]:
    return {"id": key, "note": note, "size": size}


def read(
    engine: SparkSession | None,
    folder: Path,
    files: list[list[str]],
    lateness: Lateness = DAY,
    key: str = "id",
    name: str = "{}.json",
    **options: Any,
) -> FeedContents:
    for number, lines in enumerate(files):
        (folder / name.format(number)).write_text("\n".join(lines) + "\n", "utf-8")
    said = {"format": "debezium", "line": "record", **options}
    return read_feed(engine, folder, "shop.item", [key], COLUMNS, lateness=lateness, **said)


LOADED = [message(1, "r", key, row(key, key, "long")) for key in (1, 5, 7)]


def test_headers_link_a_delete_and_an_insert(engine: SparkSession | None, tmp_path: Path) -> None:
    """What was not logged comes from the row that left, also where other messages lie between."""
    change = [message(2, "d", 1, None, newkey=2), tombstone(1), LOADED[1], message(2, "c", 2, row(2, 20), oldkey=1)]
    found = read(engine, tmp_path, [LOADED, change])
    assert found.rows == {(2,): row(2, 20, "long"), (5,): row(5, 5, "long"), (7,): row(7, 7, "long")}
    assert (found.skipped, [e.old_key for e in found.events if e.old_key]) == (2, [(1,)])
    assert found.key_halves == 0, "they are one"


def test_neighbours_of_one_transaction_are_linked_where_values_are_missing(
    engine: SparkSession | None, tmp_path: Path
) -> None:
    """The halves lie in two files; a delete and a whole insert stay two events; an insert alone is not made up."""
    files = [
        [*LOADED, message(2, "d", 1, None), tombstone(1)],
        [
            message(2, "c", 2, row(2, 20)),
            message(3, "d", 5, None),
            message(3, "c", 6, row(6, 60, "whole")),
            message(4, "d", 7, None),
            message(5, "c", 8, row(8, 80)),
        ],
    ]
    found = read(engine, tmp_path, files)
    assert found.rows == {(2,): row(2, 20, "long"), (6,): row(6, 60, "whole")}
    assert [e.old_key for e in found.events if e.old_key] == [(1,)]
    assert [e.key for e in found.events if e.position in found.folded.incomplete] == [(8,)]


def test_neighbours_of_one_partition_are_linked_only_where_a_whole_transaction_pairs_off(
    engine: SparkSession | None, tmp_path: Path
) -> None:
    """Halves lie where their keys do: the delete before an insert may be that of another row."""
    one = [
        *(message(1, "r", key, row(key, key, "long")) for key in (1, 5, 7, 9, 16)),
        *[message(2, "d", key, None) for key in (1, 5)],
        message(4, "d", 9, None),
        message(4, "c", 26, row(26, 16)),
    ]
    other = [
        *[message(2, "c", key + 10, row(key + 10, key)) for key in (1, 5)],
        *[message(3, "d", 7, None), message(3, "c", 17, row(17, 7))],
        *[message(4, "c", 19, row(19, 9)), message(4, "d", 16, None)],
    ]
    found = read(engine, tmp_path, [one, other], name="t+{}+0000000000.json")
    assert found.rows == {(17,): row(17, 7, "long")}
    waiting = sorted(e.key for e in found.events if e.position in found.folded.incomplete)
    assert waiting == [(11,), (15,), (19,), (26,)]


def test_an_ordered_table_knows_of_a_key_change_only_where_it_must(
    engine: SparkSession | None, tmp_path: Path
) -> None:
    change = [message(2, "d", 1, None, newkey=2), message(2, "c", 2, row(2, 20, "whole"), oldkey=1)]
    found = read(engine, tmp_path, [[*LOADED, *change]], ORDERED)
    assert {key: cells["note"] for key, cells in found.rows.items()} == {(2,): "whole", (5,): "long", (7,): "long"}
    assert not [e for e in found.events if e.old_key]


@pytest.mark.parametrize(
    ("moves", "told"),
    [
        ([(1, 5), (5, 7)], [((1,), (5,))]),  # the row that was under 5 leaves it behind the one that enters
        ([(1, 5), (5, 1)], [((1,), (5,))]),
        ([(5, 7), (1, 5)], []),
        ([(1, 3), (5, 1)], []),
    ],
)
def test_an_ordered_table_knows_of_keys_that_are_exchanged_or_moved_up(
    engine: SparkSession | None, tmp_path: Path, moves: list[tuple[int, int]], told: list[tuple[Any, Any]]
) -> None:
    """There it stops: the delete of one would take the row that the insert of another brought."""
    change = [
        line
        for old, new in moves
        for line in (
            message(2, "d", old, None, newkey=new),
            tombstone(old),
            message(2, "c", new, row(new, old, "whole"), oldkey=old),
        )
    ]
    found = read(engine, tmp_path, [LOADED, change], ORDERED)
    assert [(e.old_key, e.key) for e in found.events if e.old_key] == told
    if not told:
        sizes = {key: cells["size"] for key, cells in found.rows.items()}
        assert sizes.items() >= {(new,): old for old, new in moves}.items()


def test_rows_move_up_in_a_transaction_whose_id_says_the_place_of_each_change(
    engine: SparkSession | None, tmp_path: Path
) -> None:
    """PostgreSQL with `provide.transaction.metadata`: an id of one transaction is another one for each change."""
    change = [
        line
        for number, (old, new) in enumerate([(1, 5), (5, 7), (7, 9)])
        for line in (
            message(2, "d", old, None, 20 + number, newkey=new),
            message(2, "c", new, row(new, old, "whole"), 20 + number, oldkey=old),
        )
    ]
    found = read(engine, tmp_path, [LOADED, change])
    assert {key: cells["size"] for key, cells in found.rows.items()} == {(5,): 1, (7,): 5, (9,): 7}


def test_rows_without_a_key_have_no_halves(engine: SparkSession | None, tmp_path: Path) -> None:
    change = [
        *[message(2, "d", 1, None, newkey=5), message(2, "c", 5, row(5, 50, "whole"), oldkey=1)],
        *[message(2, "d", 5, None, newkey=7), message(2, "c", 7, row(7, 70, "whole"), oldkey=5)],
    ]
    (tmp_path / "0.json").write_text("\n".join([*LOADED, *change]) + "\n", "utf-8")
    said = {"format": "debezium", "line": "record"}
    found = read_feed(engine, tmp_path, "shop.item", [], COLUMNS, lateness=ORDERED, **said)
    assert [event.operation.value for event in found.events][3:] == ["delete", "insert", "delete", "insert"]
    assert found.key_halves == 0


def test_a_row_that_moves_again_in_another_transaction_is_applied_by_its_halves(
    engine: SparkSession | None, tmp_path: Path
) -> None:
    change = [
        *[message(2, "d", 1, None, newkey=3), message(2, "c", 3, row(3, 30, "whole"), oldkey=1)],
        *[message(3, "d", 3, None, newkey=4), message(3, "c", 4, row(4, 40, "whole"), oldkey=3)],
    ]
    found = read(engine, tmp_path, [LOADED, change], ORDERED)
    assert sorted(found.rows) == [(4,), (5,), (7,)]
    assert (found.key_halves, [e for e in found.events if e.old_key]) == (4, [])


def test_a_tombstone_deletes_where_arrival_orders_the_changes(engine: SparkSession | None, tmp_path: Path) -> None:
    found = read(engine, tmp_path, [[*LOADED, tombstone(5)]], tombstones="delete", places="arrival")
    assert (sorted(found.rows), found.skipped) == ([(1,), (7,)], 0)


@pytest.mark.parametrize(("images", "left", "rejects"), [("key", [1, 20], ["null_key"]), ("whole", [20], [])])
def test_a_delete_is_dropped_only_where_the_keys_of_messages_are_those_of_the_table(
    engine: SparkSession | None, tmp_path: Path, images: str, left: list[int], rejects: list[str]
) -> None:
    """The table has another key: what an image before says of it may be made up, unless the settings deny it."""
    change = [
        message(2, "d", 1, None, newkey=2).replace('"size": 0', '"size": 1'),
        message(2, "c", 2, row(2, 20, "whole"), oldkey=1),
    ]
    found = read(engine, tmp_path, [[LOADED[0], *change]], key="size", before_images=images)
    assert (sorted(size for (size,) in found.rows), [reason for reason, _ in found.rejects]) == (left, rejects)
    assert found.skipped == 0


def test_a_header_without_a_key_makes_a_message_unreadable(engine: SparkSession | None, tmp_path: Path) -> None:
    """Its other half was dropped, or will be: the row would stand under both keys."""
    change = [message(2, "c", 2, row(2, 20, "whole"), oldkey=1).replace('{\\"id\\": 1}', "eyJpZCI6MX0=")]
    found = read(engine, tmp_path, [[*LOADED, *change]])
    assert [reason for reason, _ in found.rejects] == ["unreadable"]
