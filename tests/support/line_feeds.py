"""Files of JSON lines and messages: odd ones by kind of feed, and published ones."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import outside
from both_readers import Feed
from captures import ITEM, NAME, draw
from cases import OF_TWO, PRODUCTS
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from lakeward.adapters.sources.dms.paths.file_names import PLACES
from lakeward.adapters.sources.files.options import FilesOptions
from lakeward.adapters.sources.files.source import FilesSource
from lakeward.adapters.sources.files.table_files import TableFiles
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.adapters.sources.landing.places import Places
from lakeward.adapters.sources.messages.message import UNAVAILABLE
from lakeward.core.dimension import ORDERED, Dimension, Lateness, Match, TableName, Within
from lakeward.core.events import Sequences
from lakeward.core.schema import Column, Schema, parse_type

DAY: Final = Within(24 * 3600 * 1_000_000)
LONG: Final = "LAKEWARD_LONG" in os.environ
EXAMPLES: Final = 400 if LONG else 60

TYPES: Final = {
    "id": "int",
    "big": "bigint",
    "price": "decimal(12,2)",
    "ratio": "double",
    "size": "float",
    "ok": "boolean",
    "note": "string",
    "data": "binary",
    "day": "date",
    "seen": "timestamp",
    "made": "timestamp_ntz",
    "parts": "struct<a: int, b: list<string>, c: struct<d: double, e: decimal(10,2)>>",
    "many": "list<bigint>",
    "named": "map<string, boolean>",
}

ODD_NUMBERS: Final = """
0 -0 1 -1 1.0 1.50 1790.0 1.5 2147483647 2147483648 -2147483648 9223372036854775807 9223372036854775808 1e2 1.0E10
2.342361e+06 1.79E3 -0.0 0.1 12345678901.23 123456789012.5 1e-7 3.4028235e38 3.5e38 1e39 1e400 16777217 0.1000000015
719162 -719162 -719163 2932896 2932897 1700000000000 1700000000000000 1700000000000000001 1700000000000000000
-62135596800000 -62135596800001 253402300799999 253402300800000 -1 123456789012345678901234567890
"""
ODD_TEXTS: Final = (
    *("", " ", "1", "+1", " 1 ", "007", "1.", ".5", "1e3", "NaN", "-inf", "Infinity"),
    *("nan ", "true", "T", "yes", "N"),
    *("12.345", "12.340", "9999999999.99", "10000000000", "1_0", "é", "\u0661", "a\u2028", "1\t", "0x1F", "1d"),
    *("AJY=", "ALxhTw==", "12345678", "AAAA", "QQ=", "QQ==", "-_8", "-_8=", "//8=", "68656c6c6f", "\\x00ff", "zz"),
    *("2024-02-29", "2023-02-29", "0000-01-01", "0001-01-01", "9999-12-31Z", "2024-02-29 00:00:00", "2024-2-9"),
    *("2024-05-06T07:08:09Z", "2024-05-06T07:08:09.123456Z", "2024-05-06 07:08", "2024-05-06T07:08:09+05:30"),
    *("2024-05-06T07:08:09.1234567Z", "2024-05-06T07:08:09.1234560", "2024-05-06T24:00:00Z", "2024-05-06Z"),
    *("9999-12-31T23:59:59-01:00", "0001-01-01T00:00:00+01:00", "2024-05-06T07:08Z", "2024-05-06T07:08:09+18:01"),
    *("2024-05-06T07:08:09 -0730", "2024-05-06T07:08:60Z", "__debezium_unavailable_value", "X19kZWJleml1bV91bmF2"),
)


def _object_of(cells: Mapping[str, str]) -> str:
    return "{" + ", ".join(f'"{name}": {cell}' for name, cell in cells.items()) + "}"


number = st.sampled_from(ODD_NUMBERS.split())
odd_cell = st.one_of(
    number,
    number,
    st.sampled_from(ODD_TEXTS).map(json.dumps),
    st.sampled_from(ODD_TEXTS).map(json.dumps),
    st.sampled_from(
        [
            *("null", "true", "false", "[]", "{}", '{"scale": 2, "value": "AJY="}'),
            *('{"scale": 0, "value": "//8="}', "[1, 2.50, 1e5]"),
            *('["__debezium_unavailable_value"]', '"X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="'),
        ]
    ),
)
NESTED: Final = {
    "parts": [
        *('{"a": 1, "b": ["x", null, "\\u00e9\\n"], "c": {"d": 1.5e3, "e": 1.50}}', '{"a": null, "z": [1]}', "{}"),
        *('{"c": {}}', '{"b": []}', '{"c": {"d": 7, "e": -12345678.9}}', '{"c": {"d": 0.1, "e": 3}}', "null"),
    ],
    "many": ["[]", "[1, -2, null]", "[9223372036854775807]", "null"],
    "named": ['{"x": true, "a": null, "\\u00e9": false}', "{}", "null"],
}
NESTED_ODD: Final = {
    "parts": [
        *('{"a": "1"}', '{"a": 1.0}', '{"c": {"e": 1.239}}', '{"c": [1]}', '{"b": [1]}', '"{}"'),
        *('"{\\"a\\":1}} x"', '"{\\"a\\":1,\\"a\\":2}"', '"{\\"a\\":1},\\"value\\":{\\"a\\":9}"'),
    ],
    "many": ["[9223372036854775808]", '"[1]"', "[[1]]", "{}", '"[1]}} x"', '"[1],[2]"', '"[1]] x"'],
    "named": ['{"x": 1}', "[]", '"{\\"x\\":true,\\"x\\":null}"', "\"{'x':true}\""],
}
"""Lists, maps and structs: as their types are, and otherwise."""

nested = {name: st.sampled_from([*cells * 40, *NESTED_ODD[name]]) for name, cells in NESTED.items()}
FORMER: Final = "remark"
"""The old name of column `note`, which some lines have together with the new one."""

row = st.fixed_dictionaries(
    {"id": st.sampled_from(["1", "2.0", '"3"', "null", '"__debezium_unavailable_value"'])},
    optional={**{name: odd_cell for name in (*TYPES, "strange", FORMER) if name != "id"}, **nested},
).map(lambda cells: "{" + ", ".join(f'"{name}": {cell}' for name, cell in cells.items()) + "}")
inner = st.sampled_from(
    ['{"scale": "2"}', '{"scale": 2.0}', '{"scale": [1]}', "null", "{}", "7", '"{}"', '"{\\"scale\\": 2}"']
)
source = st.fixed_dictionaries(
    {},
    optional={
        "lsn": st.sampled_from([100, "200", 1e30, "x"]),
        "sequence": st.sampled_from(['["99","100"]', '[null,"100"]', "[null, null]"]),
        "file": st.sampled_from(["mysql-bin.000003", "binlog", "b.12345678901", ""]),
        "pos": st.sampled_from([154, "7"]),
        "row": st.sampled_from([0, 3]),
        "server_id": st.sampled_from([0, 5]),
        "commit_lsn": st.sampled_from(["0000002b:00000d08:0003", "0", "zz"]),
        "commit_scn": st.sampled_from(["900", 901]),
        "scn": st.sampled_from(["800", None]),
        "ts_ms": st.sampled_from([1700000000123, 0, "1700000000123", 1.5, "2026-11-21 10:00:00", 10**22, None]),
        "ts_us": st.sampled_from([1700000000123456, 0, -1]),
        "ts_ns": st.sampled_from([1700000000123456789, -1, 999]),
        "txId": st.sampled_from([7, "8", None]),
        "schema": st.sampled_from(["shop", "SHOP", "other"]),
        "db": st.sampled_from(["shop", "Crm", "", 7, None]),
        "table": st.sampled_from(["item", "Item", "other", "item"]),
        "snapshot": st.sampled_from(["first", "true", True, "incremental", "false", None]),
        "name": st.sampled_from(["Srv", "srv", "", 7, None]),
    },
).map(json.dumps)
operation = st.sampled_from(['"c"', '"u"', '"u"', '"d"', '"r"', '"t"', '"m"', '"x"', "null", "7"])
envelope = st.builds(
    lambda op, before, after, source, block: (
        f'{{"op": {op}, "before": {before}, "after": {after}, "source": {source}, "transaction": {block}}}'
    ),
    operation,
    st.one_of(row, st.just("null")),
    st.one_of(row, row, row, st.sampled_from(["null", '"text"', r'"{\"id\": 1}"'])),
    source,
    st.sampled_from(["null", "null", '{"id": "tx-1"}', '{"id": "7:900"}', '"text"', "{}"]),
)
_BEGIN = '{"status": "BEGIN", "id": "7", "event_count": null, "data_collections": null}'
marker = st.sampled_from(
    [
        *["", " ", "null", "{}", "null\r", '{"ts_ms": 5}', '{"id": 1, "status": "new"}', _BEGIN],
        *['{"payload": null}', '{"schema": null, "payload": null}', "7"],
    ]
)
wrapped = st.one_of(envelope, envelope, envelope.map('{{"schema": {{}}, "payload": {}}}'.format), marker)
flat = st.builds(
    lambda image, metadata, op: f"{{{image[1:-1]}{metadata}{op}}}",
    row,
    st.sampled_from(
        [
            ', "__lsn": 5, "__sequence": "[\\"4\\", \\"5\\"]", "__source_ts_ms": 1700000000000',
            ', "__source_file": "bin.000001", "__pos": 7, "__table": "other"',
            ', "__transaction_id": "t", "__schema": "shop"',
            ', "__transaction_id": "7:901\\n"',
            "",
        ]
    ),
    st.sampled_from(['"u"', '"c"', '"d"', '"t"', "null"]).map(', "__op": {}, "__deleted": "false"'.format),
)
record = st.builds(
    lambda key, value, headers, topic: (
        f'{{"key": {key}, "value": {value}, "headers": {headers}, "topic": {topic}}}'
    ),
    st.sampled_from(
        ['{"id": 1}', '{"payload": {"id": 2.0}}', '"{\\"id\\": 3}"', "null", "5", '{"id": "12345678"}']
    ),
    st.one_of(envelope, envelope.map(json.dumps), st.sampled_from(["null", '""', "{}", '{"payload": null}'])),
    st.sampled_from(
        [
            "null",
            '{"__debezium.oldkey": "{\\"id\\": 5}"}',
            '[["__debezium.newkey", "{\\"id\\": 6}"]]',
            '[{"key": "__debezium.oldkey", "value": "{\\"payload\\": {\\"id\\": 7}}"}]',
            '[["__debezium.oldkey", "bm8="]]',
        ]
    ),
    st.sampled_from(["null", '"cdc.shop.item"', '"item"', '"shop.other"']),
)
dms = st.builds(
    lambda data, said, before, more: (
        f'{{"data": {data}, "metadata": {{"operation": {said}{more}}}, "before-image": {before}}}'
    ),
    st.one_of(row, row, st.just("null")),
    st.sampled_from(['"update"', '"insert"', '"delete"', '"load"', "null", '"drop-table"']),
    st.one_of(row, row, st.sampled_from(["null", '"{}"', "[]", "5"])),
    st.sampled_from(
        [
            ', "commit-timestamp": "2026-11-21T10:00:00.000000Z", "transaction-id": 7, "record-type": "data"',
            ', "timestamp": "2026-11-21T10:00:00Z", "record-type": "control"',
            ', "schema-name": "shop", "table-name": "other", "timestamp": "soon"',
            ', "record-type": "Data"',
            ', "record-type": "rows"',
            "",
        ]
    ),
)

DOCUMENT: Final = {
    "_id": "string",
    "name": "string",
    "n": "bigint",
    "price": "decimal(12,2)",
    "ratio": "double",
    "at": "timestamp",
    "parts": "struct<a: int, b: list<string>>",
}
_OID: Final = '{"$oid": "67ab25755c0d5ac87eb8c632"}'
_OWN: Final = {
    "_id": [_OID, "5", '"5"', '{"b": 1, "a": {"$numberInt": "2"}}', '{"$date": 1000}'],
    "name": [
        *('"é\\n"', '{"$symbol": "s"}', '{"$regex": "^a", "$options": ""}', '{"$binary": "AAE=", "$type": "00"}'),
        *('{"a": {"$date": 0}}', '{"$undefined": true}', "null"),
    ],
    "n": ["1", '{"$numberLong": "9223372036854775807"}', '{"$timestamp": {"t": 1, "i": 2}}'],
    "price": ['{"$numberDecimal": "3.140"}', '{"$numberDecimal": "1E+3"}', "7"],
    "ratio": ["0.5", '{"$numberDouble": "-Infinity"}', "NaN", '{"$numberDouble": "1.0E10"}', "7"],
    "at": ['{"$date": 1735934393769}', '{"$date": "2025-01-03T19:59:53Z"}', '{"$date": {"$numberLong": "-1"}}'],
    "parts": ['{"a": {"$numberInt": "1"}, "b": ["x", {"$symbol": "y"}]}', "{}", '{"a": null, "$z": 1}'],
    "strange": ["1"],
}
"""Fields of documents of MongoDB, and how their values are written."""

_ODD_OWN: Final = {
    "_id": ['{"$oid": 5}'],
    "n": ['{"$numberInt": "x"}', "1.5", '{"$minKey": 1}'],
    "price": ['{"$numberDecimal": "1E+40"}', '{"$numberDecimal": "NaN"}'],
}
_fields = {name: st.sampled_from([*cells * 6, *_ODD_OWN.get(name, [])]) for name, cells in _OWN.items()}
_rest = st.fixed_dictionaries({}, optional={name: cell for name, cell in _fields.items() if name != "_id"})
_whole = st.builds(lambda id_, rest: _object_of({"_id": id_, **rest}), _fields["_id"], _rest)
_update = st.fixed_dictionaries(
    {"updatedFields": st.one_of(_rest, _rest.map(lambda rest: {**rest, "parts.a": "1"})).map(_object_of)},
    optional={
        "removedFields": st.sampled_from([None, [], ["name", "at"], ["name"], ["parts.b"], "name"]),
        "truncatedArrays": st.sampled_from([None, [], [], [{"field": "parts", "newSize": 1}]]),
    },
)
_of_mongodb = st.fixed_dictionaries(
    {"collection": st.just("item"), "db": st.just("shop"), "name": st.just("m")},
    optional={
        "ts_ms": st.sampled_from([1739321992000, 1739321993000, 1739321993000, 0, 1739321992500]),
        "ord": st.sampled_from([1, 28, 28, None, "x"]),
        "lsid": st.sampled_from([None, "a"]),
        "txnNumber": st.sampled_from([None, 7]),
        "snapshot": st.sampled_from(["true", "false"]),
    },
)
_images: Final = [
    (st.sampled_from(["c", "r", "u"]), st.none(), _whole, st.none()),
    (st.just("u"), _whole, _whole, _update),
    (st.just("u"), st.none(), st.none(), _update),
    (st.just("u"), _whole, st.none(), _update),
    (st.just("d"), st.one_of(st.none(), _whole), st.none(), st.none()),
    (st.sampled_from(["c", "u", "d", "m", None]), *[st.sampled_from([None, "{", "[]", "7"])] * 2, st.none()),
]
_events = st.one_of(
    st.fixed_dictionaries(
        {"op": op, "before": before, "after": after, "updateDescription": update, "source": _of_mongodb}
    )
    for op, before, after, update in _images
)
document = st.builds(
    lambda key, value, is_text: json.dumps({"key": key, "value": json.dumps(value) if is_text else value}),
    st.sampled_from([*[json.dumps({"id": _OID}), '{"id": "5"}', {"id": '"5"'}] * 3, '{"id": "dummy"}', None, "{}"]),
    st.one_of(_events, _events, _events.map(lambda it: {"schema": {}, "payload": it}), st.none()),
    st.booleans(),
)
"""Records of Debezium's connector for MongoDB."""

ODD: Final[Mapping[str, tuple[st.SearchStrategy[str], Mapping[str, Any], Lateness, Match]]] = {
    "json": (row, {"format": "json", "order_by": "made", "time": "seen"}, ORDERED, Match.KEY),
    "json in part": (
        row,
        {"format": "json", "absent": "unset", "operation": {"column": "note", "delete": ["N"]}, "order_by": "day"},
        ORDERED,
        Match.KEY,
    ),
    "json with a field": (
        st.builds('{{"id": 1, "strange": {}, "day": {}}}'.format, inner, odd_cell),
        {"format": "json", "operation": {"column": "strange.scale", "delete": ["2"]}, "time": "day"},
        ORDERED,
        Match.KEY,
    ),
    "envelope": (wrapped, {"format": "debezium", "times": "microseconds"}, ORDERED, Match.KEY),
    "envelope with images": (
        wrapped,
        {"format": "debezium", "times": "nanoseconds", "decimals": "string", "before_images": "whole"},
        ORDERED,
        Match.IMAGE,
    ),
    "records": (
        record,
        {"format": "debezium", "line": "record", "times": "connect", "binary": "hex"},
        DAY,
        Match.KEY,
    ),
    "records of arrival": (
        record,
        {"format": "debezium", "line": "record", "places": "arrival", "tombstones": "delete"},
        ORDERED,
        Match.KEY,
    ),
    "flattened": (
        st.one_of(flat, flat.map('{{"payload": {}}}'.format), marker),
        {"format": "debezium", "form": "flattened", "times": "isostring", "binary": "base64-url-safe"},
        ORDERED,
        Match.KEY,
    ),
    "dms": (st.one_of(dms, dms, marker), {"format": "dms-json"}, ORDERED, Match.KEY),
    "dms with a prefix": (dms, {"format": "dms-json", "before_image_prefix": "no"}, ORDERED, Match.IMAGE),
}
"""Odd lines by kind of feed, with their settings."""

IN_THE_GATE: Final = {
    *("json in part", "envelope with images", "records", "flattened", "dms with a prefix"),
    *("drawn 0", "two partitions", "documents"),
}
"""Feeds of the gate. Each needs its own plan."""


def table_of(
    folder: Path,
    spark: SparkSession,
    name: str,
    types: Mapping[str, str],
    said: Mapping[str, Any],
    *,
    key: Sequence[str] = ("id",),
    lateness: Lateness = ORDERED,
    match: Match = Match.KEY,
) -> TableFiles:
    table = TableName(*name.split("."))
    options = FilesOptions.model_validate({"path": str(folder), **said})
    schema = Schema(tuple(Column(column, parse_type(text)) for column, text in types.items()))
    dimension = Dimension(
        name=table, schema=schema, key=tuple(key), match=match, lateness=lateness, sequences=Sequences.PLACES
    )
    return FilesSource(options, Folder(folder, Places(options.place())), lambda: spark)._table(dimension)


def draw_feeds(lines: st.SearchStrategy[str]) -> Sequence[str]:
    found: list[str] = []

    @settings(max_examples=EXAMPLES, database=None, suppress_health_check=list(HealthCheck))
    @given(lines)
    def draw_one(line: str) -> None:
        found.append(line)

    draw_one()
    return list(dict.fromkeys(found))


def odd_feeds(folder: Path, spark: SparkSession) -> Mapping[str, Feed]:
    feeds = {}
    for number, (sort, (lines, said, lateness, match)) in enumerate(ODD.items()):
        if not LONG and sort not in IN_THE_GATE:
            continue
        place = folder / str(number) / "shop" / "item"
        place.mkdir(parents=True)
        (place / "0.json").write_text("\n".join(draw_feeds(lines)) + "\n", "utf-8", newline="")
        key = [] if match is Match.IMAGE else ["id"]
        table = table_of(
            place.parent.parent, spark, "shop.item", TYPES, said, key=key, lateness=lateness, match=match
        )
        policies = replace(table.dimension.policies, renames={FORMER: "note"})
        table = replace(table, dimension=replace(table.dimension, policies=policies))
        feeds[sort] = Feed(table, ["0.json"], is_apart=True)
    return feeds


def real_feeds(folder: Path, spark: SparkSession) -> Mapping[str, Feed]:
    """Return published feeds, random ones of each connector, and key changes without headers."""
    feeds = {}
    for setting in range(3):
        place = folder / f"drawn{setting}" / NAME.schema / NAME.table
        place.mkdir(parents=True)
        found = {seed: draw(seed, setting) for seed in range(10)}
        for seed, feed in found.items():
            (place / f"{seed}.json").write_text("\n".join(feed.lines) + "\n", "utf-8")
        home = Folder(place.parent.parent, PLACES)
        table = TableFiles(spark=lambda: spark, folder=home, dimension=ITEM, options=found[0].options)
        feeds[f"drawn {setting}"] = Feed(table, [f"{seed}.json" for seed in found])
    for case, name, types, said in CASES:
        at = outside.case(case) / "input"
        files = sorted(file.name for file in at.glob("*.jsonl"))
        table = table_of(at, spark, name, types, {"format": "debezium", "folder": "", **said}, lateness=DAY)
        feeds[case] = Feed(replace(table, links=True), files)
    place = folder / "documents" / "shop" / "item"
    place.mkdir(parents=True)
    (place / "0.json").write_text("\n".join(draw_feeds(document)) + "\n", "utf-8")
    said = {"format": "debezium", "line": "record", "documents": "columns"}
    table = table_of(place.parent.parent, spark, "shop.item", DOCUMENT, said, key=["_id"])
    feeds["documents"] = Feed(table, ["0.json"], is_apart=True)
    for sort, name in (("one partition", "{}.json"), ("two partitions", "t+{}+0000000000.json")):
        place = folder / sort / "shop" / "item"
        place.mkdir(parents=True)
        for number, lines in enumerate(KEY_CHANGES):
            (place / name.format(number)).write_text("\n".join(lines) + "\n", "utf-8")
        types = {"id": "int", "note": "string"}
        table = table_of(place.parent.parent, spark, "shop.item", types, {"format": "debezium"}, lateness=DAY)
        feeds[sort] = Feed(replace(table, links=True), [name.format(number) for number in range(len(KEY_CHANGES))])
    return feeds


def change(place: int, op: str, key: int, note: str = UNAVAILABLE) -> str:
    source = {"lsn": place, "txId": place, "ts_us": place, "schema": "shop", "table": "item"}
    row = {"id": key, "note": note}
    images = {"before": row if op == "d" else None, "after": None if op == "d" else row}
    return json.dumps({**images, "source": source, "op": op})


KEY_CHANGES: Final = (
    [change(2, "d", 1), "null", change(2, "c", 11), change(3, "d", 2), change(4, "d", 3)],
    [change(4, "c", 13), change(5, "d", 4), change(5, "c", 14, "whole"), change(6, "c", 15), change(7, "d", 5)],
)
CASES: Final[list[tuple[str, str, Mapping[str, str], Mapping[str, Any]]]] = [
    ("debezium-json-pg-replica-default", "inventory.products", PRODUCTS, {"decimals": "numeric"}),
    ("debezium-json-two-tables-one-topic", "mysql_inventory.products", OF_TWO, {"decimals": "numeric"}),
    ("debezium-json-schema-type-change", "test.product", {}, {"types": "schema"}),
]
