"""Column rules through the command line. Another reader reads the tables."""

from __future__ import annotations

import hashlib
import hmac
import json
from datetime import date
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pages import fences
from project import Project

pytestmark = pytest.mark.spark

PAGE = "docs/reference/column-rules.md"
(LIST,) = [fence.content for fence in fences(PAGE, "toml") if "[pipeline]" in fence.content]
TIMED = 'timestamp_column = "last_updated_ts"'
LOAD = "LOAD00000001.csv"
ITEM = """
[tables."shop.item"]
key = ["id"]
columns = { id = "int", name = "string", price = "decimal(8,2)" }
"""


def item(*rules: str, quality: str = "", key: str = "id") -> str:
    given = "".join(f"  {{ {rule} }},\n" for rule in rules)
    return ITEM.replace('key = ["id"]', f'key = ["{key}"]') + f"rules = [\n{given}]\nquality = [{quality}]\n"


def test_the_published_job(project: Project) -> None:
    """A full load, later changes, and a second run with a file that is delivered again."""
    (project.folder / "lakeward.toml").write_text(LIST, "utf-8")
    hosts = "airbnb/hosts"
    load = [
        '2026-01-01 00:00:00,1,u/1,Ann,2011-05-06,"Berlin, Germany",an hour,90%',
        '2026-01-01 00:00:00,2,u/2,Bob,2012-02-29,"Lima,Peru",a day,N/A',
        "2026-01-01 00:00:00,3,u/3,Cay,NULL,Nowhere,NULL,NULL",
        '2026-01-01 00:00:00,4,u/4,Dan,2012-02-30,"Rome,   Italy",a day,1%',
    ]
    project.put(LOAD, "".join(f"{line}\n" for line in load), hosts)
    changes = [
        'U,2026-01-02 00:00:00,1,u/1,Ann,2011-05-07,"Bonn,  Germany",x,1%',
        "D,2026-01-02 00:00:01,2,u/2,Bob,2012-02-29,x,a day,N/A",
        'I,2026-01-02 00:00:02,5,u/5,Eve,2020-01-01,"Washington, D.C., USA",x,1%',
    ]
    content = "op,last_updated_ts,id,url,name,since,location,response_time,response_rate\n" + "\n".join(changes)
    project.put("20260102-100000000.csv", content + "\n", hosts)
    project.run(3)
    columns = ("id", "url", "name", "since", "city", "country")
    expected = [
        (1, "u/1", "Ann", date(2011, 5, 7), "Bonn", "Germany"),
        (3, "u/3", "Cay", None, "Nowhere", None),
        (5, "u/5", "Eve", date(2020, 1, 1), "Washington", "D.C., USA"),
    ]
    assert project.rows("hosts", "airbnb", columns) == expected
    names = project.call("plan", "--json").document["tables"][0]
    assert names["batch"] is None
    (entry,) = project.entries()
    assert entry["detail"] == '"2012-02-30" is not a date (column since, rule 1)'
    assert (entry["reason"], entry["text"]) == ("cast", load[3])
    project.put("20260103-100000000.csv", content + "\n", hosts)
    project.run(3)
    assert project.rows("hosts", "airbnb", columns) == expected


RULES = (
    'rule = "rename", column = "id", to = "number"',
    'rule = "trim", column = "name"',
    'rule = "hash", column = "name", key = "env:PEPPER", to = "person"',
    'rule = "mask", column = "name", keep = 2',
    'rule = "cast", column = "price", type = "string"',
    'rule = "sql", expression = "concat(name, \':\', price)", to = "label", type = "string"',
    'rule = "constant", to = "site", value = "eu"',
)
COLUMNS = ("number", "name", "person", "price", "label", "site")


def test_a_load_changes_and_a_replay_give_equal_tables(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """One table gets a load and changes, the other every row as a change. Then both get everything again."""
    monkeypatch.setenv("PEPPER", secret := "a secret of the tests")
    tables = item(*RULES, key="number")
    project.configure(tables + tables.replace("shop.item", "shop.copy"), TIMED)
    stamp = "2026-11-21 10:00:0"
    loaded = [(1, " Ann ", "1.50"), (2, "Bo", "2.00"), (3, "Cay", "3.00")]
    put = project.put
    put(LOAD, "".join(f"{stamp}0,{n},{name},{price}\n" for n, name, price in loaded))
    put("20261121-090000000.csv", "".join(f"I,{stamp}0,{n},{a},{p}\n" for n, a, p in loaded), "shop/copy")
    changes = f"U,{stamp}1,1,Anna,9.00\nD,{stamp}2,2,Bo,2.00\nI,{stamp}3,4,Dan,0.10\n"
    for table in ("shop/item", "shop/copy"):
        put("20261121-100000000.csv", changes, table)
    project.run()

    def person(name: str) -> str:
        return hmac.new(secret.encode(), name.encode(), hashlib.sha256).hexdigest()

    expected = [
        (1, "**na", person("Anna"), "9.00", "**na:9.00", "eu"),
        (3, "*ay", person("Cay"), "3.00", "*ay:3.00", "eu"),
        (4, "*an", person("Dan"), "0.10", "*an:0.10", "eu"),
    ]
    assert project.rows("item", columns=COLUMNS) == project.rows("copy", columns=COLUMNS) == expected
    for table in ("shop/item", "shop/copy"):
        put("20261121-110000000.csv", changes, table)
    project.run()
    assert project.rows("item", columns=COLUMNS) == project.rows("copy", columns=COLUMNS) == expected
    said = "".join(path.read_text("utf-8", "replace") for path in (project.folder / "state").glob("*"))
    assert secret not in said


def test_rows_that_break_rules_wait_or_are_counted(project: Project) -> None:
    quality = """
        { rule = "in_set", column = "name", values = ["a", "b"] },
        { rule = "range", column = "price", max = 5, action = "warn", name = "dear" },
        { rule = "unique" },
        { rule = "sql", expression = "id != 9" },
        { rule = "null_share", column = "price", max = 0.5 },
    """
    project.configure(item('rule = "trim", column = "name"', quality=quality))
    project.put(LOAD, "1, a ,9.00\n2,c,1.00\n3,b,1.00\n3,b,2.00\n4,b,NULL\n9,a,6.00\n")
    project.put("20261121-100000000.csv", "U,2,a,1.00\nD,4,x,NULL\nI,5,b,7.00\n")
    plan = project.call("plan", "--json").document["tables"][0]
    assert plan["rejects"] == {"quality": 4}
    assert plan["quality_warnings"] == {"dear": 3}
    assert "3 rows break dear, which only warns." in plan["warnings"]
    ended = project.call("run")
    assert (ended.code, "3 rows break dear, which only warns." in ended.out) == (3, True)
    assert project.rows() == [(1, "a", 9), (5, "b", 7)]
    rejects = {(entry["row"], entry["detail"], entry["text"]) for entry in project.entries()}
    assert rejects == {
        (2, '"c" breaks in_set(name) (quality rule 1)', "2,c,1.00"),
        (3, "the row breaks unique() (quality rule 3)", "3,b,1.00"),
        (4, "the row breaks unique() (quality rule 3)", "3,b,2.00"),
        (6, "the row breaks id != 9 (quality rule 4)", "9,a,6.00"),
    }
    assert project.call("quarantine", "discard", "shop.item", "2").code in (0, 3)
    assert (2, "a", 1) in project.rows(), "what waited behind it is applied"


def test_a_file_that_breaks_a_rule_is_rejected_and_files_before_it_are_applied(project: Project) -> None:
    quality = """
        { rule = "null_share", column = "price", max = 0.5, inputs = "changes" },
        { rule = "row_count", min = 2, inputs = "load" },
    """
    project.configure(item(quality=quality))
    project.put(LOAD, "")
    assert "LOAD00000001.csv is rejected whole" in project.fails()
    project.put(LOAD, "1,a,1.00\n2,b,NULL\n")
    project.put("20261121-100000000.csv", "I,3,c,1.00\n")
    project.put("20261121-110000000.csv", "I,4,d,NULL\nI,5,d,NULL\nI,6,d,1.00\n")
    project.put("20261121-120000000.csv", "I,7,c,1.00\n")
    said = project.fails()
    assert "20261121-110000000.csv is rejected whole" in said
    assert "price is NULL in 2 of 3 rows (66.7 %), and 50 % are the most" in said
    assert [row[0] for row in project.rows()] == [1, 2, 3]
    project.put("20261121-110000000.csv", "I,4,d,NULL\nI,5,d,2.00\nI,6,d,1.00\n")
    project.run()
    assert [row[0] for row in project.rows()] == [1, 2, 3, 4, 5, 6, 7]


def parquet(project: Project, file: str, /, **columns: Any) -> None:
    path = project.put(file, b"")
    pq.write_table(pa.table(columns), path)


def test_files_may_have_columns_unknown_to_rules_and_lack_known_ones(project: Project) -> None:
    """A new column passes, a nested one is flattened, and columns derived from a missing one keep their values."""
    project.configure(
        '[tables."shop.item"]\nkey = ["id"]\ncolumns = { id = "int", name = "string" }\n'
        'rules = [{ rule = "split", column = "name", pattern = "-", into = ["one", "two"] },'
        ' { rule = "default", column = "name", value = "none" }]\n'
    )
    ids = pa.array([1], pa.int32())
    parquet(project, "20261121-100000000.parquet", Op=["I"], id=ids, name=["a-b"])
    parquet(project, "20261121-110000000.parquet", Op=["U"], id=ids, name=["c-d"], extra=["new"])
    parquet(project, "20261121-120000000.parquet", Op=["U"], id=ids, extra=["newer"])
    project.run()
    columns = ("id", "name", "one", "two", "extra")
    assert project.rows(columns=columns) == [(1, "c-d", "c", "d", "newer")]


def test_a_key_in_a_struct_and_values_that_do_not_fit(project: Project) -> None:
    instant = 'expression = "timestamp_micros(v)", type = "timestamp"'
    listed = 'expression = "array(date_add(date\'9999-12-30\', n))", type = "list<date>"'
    bytes_ = 'expression = "CAST(unhex(t) AS string)", type = "string"'
    project.configure(
        '[tables."shop.other"]\nkey = ["id"]\ncolumns = { id = "int", v = "bigint", n = "int", t = "string" }\n'
        f'rules = [{{ rule = "sql", to = "at", {instant} }}, {{ rule = "sql", to = "days", {listed} }},'
        f' {{ rule = "sql", to = "umlaut", {bytes_} }}]\n'
        '[tables."shop.item"]\nkey = ["doc_id"]\n'
        'rules = [{ rule = "flatten", column = "doc" }, { rule = "cast", column = "doc_id", type = "int" }]\n'
    )
    type_ = pa.struct([("id", pa.string()), ("v", pa.int32())])
    docs = [{"id": "1", "v": 1}, {"id": "x", "v": 2}, {"id": None, "v": 3}, None, {"id": "2", "v": None}]
    operations = ["I"] * 5
    parquet(project, "20261121-100000000.parquet", Op=operations, doc=pa.array(docs, type_))
    other = "1,1767225600000000,1,C3BC\n2,1767225600000000000,1,\n3,0,2,\n4,NULL,NULL,\n5,0,0,FC\n"
    project.put(LOAD, other, "shop/other")
    project.run(3)
    assert project.rows(columns=("doc_id", "doc_v")) == [(1, 1), (2, None)]
    said = project.entries()
    entries = {name: [entry for entry in said if entry["table"] == f"shop.{name}"] for name in ("item", "other")}
    assert [entry["reason"] for entry in entries["item"]] == ["unreadable", "null_key", "null_key"]
    assert '"x" is not an int (column doc_id, rule 2)' in entries["item"][0]["detail"]
    assert project.rows("other", columns=("id", "umlaut")) == [(1, "ü"), (4, "")]
    assert [(entry["reason"], entry["row"]) for entry in entries["other"]] == [("cast", row) for row in (2, 3, 5)]
    words = " is not a timestamp of the years 1 to 9999 (column at, rule 1)"
    assert entries["other"][0]["detail"].endswith(words)
    assert entries["other"][2]["detail"] == "the text is not valid UTF-8 (column umlaut, rule 3)"


BAD = {
    'rule = "trim", column = "nam"': "shop.item: rule 1, trim: there is no column 'nam' here",
    'rule = "replace", column = "name", pattern = "(", by = ""': "shop.item: rule 1, replace: '(' is no pattern",
    'rule = "cast", column = "name", type = "date", format = "bbb"': "rule 1, cast: 'bbb' is no pattern of a date",
    'rule = "sql", expression = "rand()", to = "r", type = "double"': "gives another value each time",
    'rule = "sql", expression = "(SELECT 1)", to = "r", type = "int"': "rule 1, sql: the expression has a subquery",
    'rule = "sql", expression = "sum(id)", to = "r", type = "bigint"': "the expression is not of one row",
    'rule = "sql", expression = "max(id) OVER ()", to = "r", type = "int"': "the expression has a window",
    'rule = "sql", expression = "nam", to = "r", type = "string"': "the expression names 'nam'",
    'rule = "sql", expression = "id", to = "r", type = "string"': "gives int, and string is declared",
    'rule = "hash", column = "name", key = "env:NO_SUCH_SECRET"': "the secret env:NO_SUCH_SECRET is not there",
}


def test_a_bad_rule_is_an_error_of_the_settings_before_anything_starts(project: Project) -> None:
    """Also in a later table: then the tables before it are not started."""
    project.put(LOAD, "1,a,1.00\n", "shop/good")
    project.put(LOAD, "1,a,1.00\n")
    good = ITEM.replace("shop.item", "shop.good")
    for rule, said in BAD.items():
        project.configure(good + item(rule))
        for command in ("run", "plan"):
            ended = project.call(command)
            assert (ended.code, said in ended.err) == (1, True), (rule, ended)
    project.configure(good + item(quality='{ rule = "pattern", column = "name", pattern = "[" }'))
    ended = project.call("run")
    assert (ended.code, "quality rule 1, pattern: '[' is no pattern" in ended.err) == (1, True)
    assert not (project.folder / "lake").exists()


def test_an_expression_that_fails_on_a_row_stops_the_table_with_nothing_written(project: Project) -> None:
    project.configure(item('rule = "sql", expression = "10 div id", to = "r", type = "bigint"'))
    project.put(LOAD, "1,a,1.00\n0,b,1.00\n")
    assert "a rule cannot be carried out on the rows of the batch" in (said := project.fails())
    assert "DIVIDE_BY_ZERO" in said
    assert not (project.folder / "lake" / "shop" / "item").exists()


def test_rows_with_rules_are_repaired_in_the_columns_of_their_source(project: Project) -> None:
    """One row that the source could not read, and one that a rule refused. Undeclared columns are not offered."""
    rules = (
        'rule = "rename", column = "id", to = "number"',
        'rule = "cast", column = "name", type = "int", to = "size"',
        'rule = "drop", columns = ["name"]',
    )
    quality = '{ rule = "range", column = "size", max = 9 }'
    bare = '[tables."shop.bare"]\nkey = ["id"]\nrules = [{ rule = "cast", column = "size", type = "int" }]\n'
    project.configure(item(*rules, key="number", quality=quality) + bare)
    project.put("20261121-100000000.csv", "I,1,7,dear\nI,2,big,2.00\nI,3,3,3.00\nU,2,8,2.50\n")
    (project.folder / "landing/shop/bare").mkdir(parents=True)
    ids = pa.array([1], pa.int32())
    rows = pa.table({"Op": ["I"], "id": ids, "size": ["big"]})
    pq.write_table(rows, project.folder / "landing/shop/bare/20261121-100000000.parquet")
    project.run(3)
    shown = project.call("quarantine", "show", "shop.bare").out
    assert "Fix the row" not in shown
    assert "cast: it cannot be fixed: the columns of its source are not declared." in shown
    assert "the columns of its source are not declared" in project.call("quarantine", "fix", "shop.bare", "1").err
    assert "Fix the row" in project.call("quarantine", "show", "shop.item").out
    assert project.call("quarantine", "fix", "shop.item", "--reason", "cast").code == 0
    file = project.folder / "shop.item.fix.toml"
    text = file.read_text("utf-8")
    assert '"id" = "2"  # int, of the key\n"name" = "big"  # string\n"price" = "2.00"  # decimal(8,2)' in text
    for size, said in (("large", "is not an int (column size, rule 2)"), ("10", "breaks range(size)")):
        file.write_text(text.replace('"dear"', '"1.00"').replace('"big"', f'"{size}"'), "utf-8")
        ended = project.call("quarantine", "fix", "shop.item", "--from", file.name)
        assert (ended.code, said in ended.err) == (1, True), ended.err
    file.write_text(text.replace('"dear"', '"1.00"').replace('"big"', '"6"'), "utf-8")
    assert project.call("quarantine", "fix", "shop.item", "--from", file.name).code == 0
    assert project.call("quarantine", "replay", "shop.item").code == 0
    assert [(n, size, str(price)) for n, size, price in project.rows(columns=("number", "size", "price"))] == [
        (1, 7, "1.00"),
        (2, 8, "2.50"),
        (3, 3, "3.00"),
    ]


UNDECLARED = """
[tables."shop.{name}"]
key = ["id"]
lateness = "24h"
source = {{ folder = "{name}" }}
{rules}
"""
ON_OTHERS = {
    "judged": 'quality = [{ rule = "in_set", column = "note", values = ["a", "b"] }]',
    "made": 'rules = [{ rule = "trim", column = "note" }]',
}


def test_rows_change_their_key_where_no_columns_are_declared(project: Project) -> None:
    """The key of such a table is that of its source. It finds the stored row, and holds a row."""
    project.configure(
        "".join(UNDECLARED.format(name=name, rules=rules) for name, rules in ON_OTHERS.items()),
        'format = "debezium"\ntypes = "schema"',
        source_kind="files",
    )
    fields = [{"field": "id", "type": "int32"}, {"field": "note", "type": "string", "optional": True}]
    images = [{"field": name, "type": "struct", "optional": True, "fields": fields} for name in ("before", "after")]
    for name in ON_OTHERS:
        stood, moved = {"id": 1, "note": "a"}, {"id": 2, "note": "b"}
        changes = [("c", None, stood), ("c", None, {"id": 5, "note": "a"}), ("u", stood, moved)]
        changes += [("c", None, {"id": 6, "note": "wrong"})] if name == "judged" else []
        for place, (operation, before, after) in enumerate(changes, start=1):
            source = {"schema": "shop", "table": name, "lsn": place, "ts_ms": 1_790_000_000_000 + place}
            payload = {"op": operation, "before": before, "after": after, "source": source}
            project.put(f"{place}.json", json.dumps({"schema": {"fields": images}, "payload": payload}), name)
    project.run(3)
    for name in ON_OTHERS:
        assert project.rows(name, columns=("id", "note")) == [(2, "b"), (5, "a")]
    (entry,) = project.entries()
    assert (entry["key"], entry["reason"]) == (["6"], "quality")
    assert project.call("quarantine", "fix", "shop.judged", "6", "--to", "wrong.toml").code == 0
    assert '"note" = "wrong"  # string\n' in (project.folder / "wrong.toml").read_text("utf-8")
