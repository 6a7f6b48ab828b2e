"""The settings file: what is taken, what is refused, and in which words."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from projects import MEMORY, write

from lakeward.core.dimension import Lateness, Ordered, TableName, Tolerance, Unbounded, Unreadable, Within
from lakeward.core.errors import ConfigError, SchemaConflict
from lakeward.core.pipeline.job import Job
from lakeward.core.progress import Progress
from lakeward.core.schema_changes.evolution import Kind, Policies, Policy
from lakeward.entrypoints.container import Container
from lakeward.entrypoints.settings.configuration import Configuration, load
from lakeward.entrypoints.settings.patterns import table_name

ORDERS = """
    [tables."shop.orders"]
    key = ["id"]
    [tables."shop.orders".columns]
    id = "bigint"
    total = "decimal(12,2)"
    placed = { type = "date", format = "d-MMM-yy" }
"""


def refusal(folder: Path, *parts: str) -> ConfigError:
    with pytest.raises(ConfigError) as refused:
        load(write(folder, *parts))
    return refused.value


# What is taken.


def test_a_table_becomes_a_dimension_with_key_and_declared_columns(tmp_path: Path) -> None:
    configured = load(write(tmp_path, MEMORY, ORDERS))
    dimension = configured.dimension(TableName("shop", "orders"))
    assert (dimension.key, dimension.lateness) == (("id",), Ordered(1000))
    types = {"id": "bigint", "total": "decimal(12,2)", "placed": "date"}
    assert {column.name: str(column.type) for column in dimension.schema} == types
    assert configured.formats() == {TableName("shop", "orders"): {"placed": "d-MMM-yy"}}
    bare = load(write(tmp_path, MEMORY, '[tables."shop.orders"]\nkey = ["id"]'))
    assert bare.dimension(TableName("shop", "orders")).key == ("id",), "the files bring its columns"


def test_defaults_stand_under_every_table_and_a_table_has_the_last_word(tmp_path: Path) -> None:
    parts = """
        [defaults]
        redelivery = 7
        partition_by = ["day"]
        [tables."shop.orders"]
        [tables."shop.lines"]
        redelivery = 8
    """
    configured = load(write(tmp_path, MEMORY, parts))
    orders, lines = TableName("shop", "orders"), TableName("shop", "lines")
    assert [configured.dimension(name).lateness for name in (orders, lines)] == [Ordered(7), Ordered(8)]
    assert configured.format_options() == {orders: {"partition_by": ["day"]}, lines: {"partition_by": ["day"]}}


def test_paths_are_relative_to_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "below").mkdir()
    write(tmp_path / "below", MEMORY)
    monkeypatch.chdir(tmp_path)
    configured = load(Path("below/lakeward.toml"))
    assert configured.base == tmp_path / "below"
    assert configured.state == tmp_path / "below" / "state"


def test_all_tables_are_chosen_where_none_is_named(tmp_path: Path) -> None:
    configured = load(write(tmp_path, MEMORY, '[tables."b.b"]\n[tables."a.a"]\n'))
    assert [*map(str, configured.choose([]))] == ["b.b", "a.a"]
    assert [*map(str, configured.choose(["a.a"]))] == ["a.a"]


def test_limits_of_the_quarantine_are_those_of_the_table_or_the_default(tmp_path: Path) -> None:
    parts = """
        [defaults]
        quarantine = { max_share = 1, unreadable = "stop" }
        [tables."shop.orders"]
        [tables."shop.lines"]
        quarantine = { max_rows = 0 }
    """
    configured = load(write(tmp_path, MEMORY, parts))
    orders, lines = (configured.dimension(TableName("shop", name)).tolerance for name in ("orders", "lines"))
    assert orders == Tolerance(max_share=1.0, unreadable=Unreadable.STOP)
    assert lines == Tolerance(max_rows=0)


def test_policies_are_those_of_the_table_and_of_paths_in_it(tmp_path: Path) -> None:
    parts = """
        [tables."shop.orders"]
        key = ["no"]
        columns = { no = "int" }
        [tables."shop.orders".schema]
        narrow = "evolve"
        rename = { id = "no" }
        columns."address.city" = { add = "ignore", incompatible = "quarantine" }
    """
    dimension = load(write(tmp_path, MEMORY, parts)).dimension(TableName("shop", "orders"))
    city = {Kind.ADD: Policy.IGNORE, Kind.RETYPE: Policy.QUARANTINE}
    assert dimension.policies == Policies(narrow=Policy.EVOLVE, renames={"id": "no"}, paths={"address.city": city})
    assert dimension.keeps_text, "rows may be refused after they are read"


WRONG_LIMITS = ("max_share = 5", "max_share = -0.1", "max_rows = -1", 'unreadable = "ignore"', "max_row = 1")


@pytest.mark.parametrize(
    ("own", "said"),
    [
        *((f"quarantine = {{ {wrong} }}", wrong.partition(" =")[0]) for wrong in WRONG_LIMITS),
        ('schema.rename = { a = "a" }', "'a' is renamed to itself"),
        ('schema.rename = { a = "b", b = "c" }', "'b' is renamed itself"),
        ('schema.rename = { a = "_lakeward_row" }', "cannot name a column"),
        ('schema.rename = { id = "no" }\nkey = ["id"]', "`key` names 'id', which is called 'no' now"),
        ('schema.rename = { id = "no" }\ncolumns.id = "int"', "`columns` names 'id', which is called 'no' now"),
        (
            'schema.rename = { "a.b" = "c" }\ncolumns.a = "struct<c: int>"',
            "fields within columns cannot be renamed",
        ),
        ('schema.columns."a.b" = { rename = "c" }', "rename"),
        ('schema.columns."a.b" = { drop = "ignore" }', "drop"),
        ("columns.id = 8", '.columns.id]: must be a type such as "bigint", or a table'),
        ('key = ["id", "id"]', "shop.orders: the key names a column twice"),
        ('columns._LAKEWARD_row = "int"', "begins with _lakeward_"),
        *((f'columns."{name}" = "int"', "cannot name a column") for name in ("", "a\\nb", "a\\u0000b")),
        ('quality = [{ rule = "row_count", min = 3, max = 2 }]', "no value lies between `min` 3 and `max` 2"),
        (
            'quality = [{ rule = "length", column = "a", min = 3, max = 2 }]',
            "no value lies between `min` 3 and `max` 2",
        ),
    ],
)
def test_what_cannot_be_said_of_a_table_is_refused(tmp_path: Path, own: str, said: str) -> None:
    error = refusal(tmp_path, MEMORY, f'[tables."shop.orders"]\n{own}\n')
    assert said in f"{error.what} {error.found}"


# What cannot be read.


@pytest.mark.parametrize(
    ("content", "what", "found"),
    [
        (None, "cannot be read", "directory"),
        ('[pipeline]\nname = "Käse"'.encode("latin-1"), "cannot be read", "utf-8"),
        (b"[pipeline\n", "is not valid TOML", "line 1"),
    ],
    ids=["a folder", "another encoding", "no TOML"],
)
def test_a_file_that_is_no_settings_file_is_refused(
    tmp_path: Path, content: bytes | None, what: str, found: str
) -> None:
    file = tmp_path / "lakeward.toml"
    file.mkdir() if content is None else file.write_bytes(content)
    with pytest.raises(ConfigError, match=what) as refused:
        load(file)
    assert found in str(refused.value.found)


def test_a_mark_of_its_encoding_at_the_beginning_of_a_file_is_passed_over(tmp_path: Path) -> None:
    file = write(tmp_path, MEMORY, ORDERS)
    file.write_text(file.read_text("utf-8"), "utf-8-sig")
    assert load(file).choose(()) == [TableName("shop", "orders")]


# What does not belong there.


@pytest.mark.parametrize(
    ("part", "found", "todo"),
    [
        ("[pipelin]\nname = 1", "the file has no key 'pipelin'", "Did you mean 'pipeline'?"),
        ("[spark]\nmemroy = '2g'", "[spark] has no key 'memroy'", "Did you mean 'memory'?"),
        (
            '[tables."a.b"]\ncolumns.c = { type = "int", fromat = "x" }',
            "[tables.\"a.b\".columns.c] has no key 'fromat'",
            "Did you mean 'format'?",
        ),
    ],
)
def test_an_unknown_key_is_refused_with_the_one_that_was_meant(
    tmp_path: Path, part: str, found: str, todo: str
) -> None:
    error = refusal(tmp_path, MEMORY, part)
    assert (error.found, error.todo) == (found, todo)
    assert str(tmp_path / "lakeward.toml") in error.what


def test_an_empty_file_lacks_three_tables(tmp_path: Path) -> None:
    found = refusal(tmp_path, "").found
    assert found == "\n".join(f"the file lacks the key {name!r}" for name in ("pipeline", "source", "target"))


LATENESS = 'must be a duration such as "24h", "30m" or "7d", or "ordered", or "unbounded"'


@pytest.mark.parametrize(
    ("part", "found"),
    [
        ('[tables]\n"a.b" = 3', '[tables."a.b"] must be a table of keys'),
        ("[[defaults]]", "[defaults] must be a table of keys"),
        ('[tables."a.b"]\nkey = "id"', '[tables."a.b".key]: input should be a valid list'),
        ('[tables."a.b"]\nmode = "scd2"', "[tables.\"a.b\".mode]: input should be 'mirror' or 'history'"),
        ('[tables."a.b"]\nlateness = "soon"', f'[tables."a.b".lateness]: {LATENESS}'),
        ('[tables."a.b"]\nredelivery = 0', '[tables."a.b".redelivery]: input should be greater than 0'),
        ('[tables."a.b"]\nredelivery = "5"', '[tables."a.b".redelivery]: input should be a valid integer'),
        ('[tables."a.b"]\nredelivery = 5.0', '[tables."a.b".redelivery]: input should be a valid integer'),
        ('[tables."a.b"]\nskip = "no"', '[tables."a.b".skip]: input should be a valid boolean'),
        ('[tables."a.b".history]\nclosed = 1', '[tables."a.b".history.closed]: input should be a valid boolean'),
        (
            '[tables."a.b"]\nquarantine.max_share = "1"',
            '[tables."a.b".quarantine.max_share]: input should be a valid number',
        ),
        ('[spark]\nmemory = "lots"', r"[spark.memory]: string should match pattern '^\d+[kmgKMG]$'"),
        ("[spark.settings]\nretries = 3", "[spark.settings.retries]: input should be a valid string"),
    ],
)
def test_a_value_of_another_form_is_refused_with_its_place(tmp_path: Path, part: str, found: str) -> None:
    assert refusal(tmp_path, MEMORY, part).found == found


@pytest.mark.parametrize(
    ("right", "wrong", "said"),
    [
        *(('"shop"', f'"{name}"', "[pipeline.name]") for name in ("", "a b", "a/b", "shop\\u0000")),
        *(
            ("[source]", f"parallel = {number}\n[source]", "[pipeline.parallel]")
            for number in ("0", "-1", "1.5", "true", '"2"', '"many"')
        ),
        *(
            (f'[{part}]\nkind = "memory"', f'[{part}]\npath = "x"', f"[{part}] has no `kind`")
            for part in ("source", "target")
        ),
    ],
)
def test_what_cannot_be_said_of_a_pipeline_is_refused(tmp_path: Path, right: str, wrong: str, said: str) -> None:
    error = refusal(tmp_path, MEMORY.replace(right, wrong))
    assert said in f"{error.what} {error.found}"
    assert "`kind`" not in said or "lakeward plugins" in str(error.todo)


@pytest.mark.parametrize("type_", ["bigit", "decimal", "decimal(39,2)", "decimal(2,3)", "list<", "struct<>", ""])
@pytest.mark.parametrize("form", ['"{}"', '{{ type = "{}" }}'])
def test_a_word_that_is_no_type_is_refused_with_all_types(tmp_path: Path, form: str, type_: str) -> None:
    error = refusal(tmp_path, MEMORY, f'[tables."shop.orders".columns]\nid = {form.format(type_)}')
    assert f"{type_!r} is not a type. Types are boolean, int" in str(error.found)


# Keys and names.


def test_a_key_names_declared_columns(tmp_path: Path) -> None:
    error = refusal(tmp_path, MEMORY, ORDERS.replace('key = ["id"]', 'key = ["idd"]'))
    assert error.what == "shop.orders: the key names 'idd', and no column is called so"
    assert (error.found, error.todo) == ("the columns are id, total, placed", "Did you mean 'id'?")
    error = refusal(tmp_path, MEMORY, ORDERS.replace('key = ["id"]', 'key = ["number"]'))
    assert "those of the key must be, too" in str(error.todo)


def test_columns_that_differ_only_in_case_stop_their_table_alone(tmp_path: Path) -> None:
    both = '[tables."shop.orders".columns]\nid = "int"\nID = "int"\n'
    configured = load(write(tmp_path, MEMORY, both, '[tables."shop.other".columns]\nid = "int"\n'))
    with pytest.raises(SchemaConflict, match="two columns differ only in case") as refused:
        configured.dimension(TableName("shop", "orders"))
    assert refused.value.found == "found id and ID"
    assert configured.dimension(TableName("shop", "other")).schema.names == ("id",)


@pytest.mark.parametrize("suffix", ["__changes", "__quarantine"])
def test_a_table_may_not_be_called_as_what_is_kept_beside_another(tmp_path: Path, suffix: str) -> None:
    error = refusal(tmp_path, MEMORY, f'[tables."shop.orders"]\n[tables."shop.orders{suffix}"]')
    assert error.what == f"shop.orders{suffix}: the name is that of a side table of shop.orders"
    load(write(tmp_path, MEMORY, f'[tables."shop.orders{suffix}"]'))
    twice = refusal(tmp_path, MEMORY, """[tables."shop.orders"]\n[tables."shop.other"]\n[tables.'"shop".orders']""")
    assert ("are the same table" in twice.what, twice.found) == (True, 'shop.orders, "shop".orders')


def test_a_table_that_is_not_configured_is_refused_with_the_nearest(tmp_path: Path) -> None:
    configured = load(write(tmp_path, MEMORY, '[tables."shop.orders"]\n[tables."shop.lines"]'))
    with pytest.raises(ConfigError, match=r"shop\.order is not configured") as refused:
        configured.choose(["shop.order"])
    assert refused.value.found == "the tables are shop.orders, shop.lines"
    assert refused.value.todo == "Did you mean 'shop.orders'?"


@pytest.mark.parametrize(
    ("text", "schema", "table"),
    [
        ("shop.orders", "shop", "orders"),
        ("shop.orders.2026", "shop", "orders.2026"),
        ('"my.shop".orders', "my.shop", "orders"),
        ('"my.shop"."or.ders"', "my.shop", "or.ders"),
        ('shop."the ""new"" orders"', "shop", 'the "new" orders'),
        ("select.from", "select", "from"),
        ("käse laden.bestellungen ✓", "käse laden", "bestellungen ✓"),
        ("o'shop.`orders`; --", "o'shop", "`orders`; --"),
    ],
)
def test_a_table_is_named_by_schema_and_table(text: str, schema: str, table: str) -> None:
    assert table_name(text) == TableName(schema, table)


@pytest.mark.parametrize(
    "text", ["", "orders", ".", "shop.", ".orders", 'a"b"', 'a."b', "a..b", '"a"b.c', '"".b', '"a"."b".c']
)
def test_what_names_no_table_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="does not name a table"):
        table_name(text)


@pytest.mark.parametrize("name", [("a", "b"), ("a.b", "c"), ("a", "b.c"), ('a"b', 'c"'), ("…", "select * from")])
def test_a_table_is_shown_as_it_is_named(name: tuple[str, str]) -> None:
    assert table_name(str(TableName(*name))) == name


HARMLESS = ["two words", "quo'te", "back`tick", "semi;colon -- drop", "ünïcödé", "表", "select", "100%", "$x{y}"]


@pytest.mark.parametrize("name", HARMLESS)
def test_hostile_names_are_taken_for_tables_and_columns(tmp_path: Path, name: str) -> None:
    configured = load(write(tmp_path, MEMORY, f"""[tables."{name}.{name}".columns]\n"{name}" = "int"\n"""))
    (table,) = configured.tables
    assert table == (name, name)
    assert configured.dimension(table).schema.names == (name,)


@pytest.mark.parametrize("name", ["a/b", "a\\\\b", "..", "a..b", "a\\nb", "a\\u0000b", "a\\u001bb", "a\\u0085b"])
@pytest.mark.parametrize("form", ['"{}".t', 's."{}"'])
def test_path_separators_and_control_characters_are_refused_in_table_names(
    tmp_path: Path, form: str, name: str
) -> None:
    quoted = form.format(name).replace('"', '\\"')
    assert "cannot name a table" in refusal(tmp_path, MEMORY, f'[tables."{quoted}"]').what


@pytest.mark.parametrize("name", ["a/b", "..", "a.b"])
def test_a_column_may_have_what_only_a_path_may_not(tmp_path: Path, name: str) -> None:
    configured = load(write(tmp_path, MEMORY, f'[tables."shop.orders".columns]\n"{name}" = "int"'))
    assert isinstance(configured, Configuration)


@pytest.mark.parametrize(
    ("text", "lateness"),
    [
        ('lateness = "24h"', Within(24 * 3_600_000_000)),
        ('lateness = "90 s"', Within(90_000_000)),
        ('lateness = "7d"', Within(7 * 86_400_000_000)),
        ('lateness = "30m"', Within(1_800_000_000)),
        ('lateness = "unbounded"', Unbounded()),
        ('lateness = "ordered"\nredelivery = 5', Ordered(5)),
        ("", Within(1)),
    ],
)
def test_lateness_is_a_duration_or_a_word_or_that_of_the_source(
    tmp_path: Path, text: str, lateness: Lateness
) -> None:
    configured = load(write(tmp_path, MEMORY, f'[tables."shop.orders"]\n{text}\n'))
    assert configured.dimension(TableName("shop", "orders"), Within(1)).lateness == lateness


def test_a_job_has_the_attempts_of_the_settings_and_a_look_at_its_table(tmp_path: Path) -> None:
    configured = load(write(tmp_path, MEMORY.replace("[pipeline]", "[pipeline]\ncommit_attempts = 2"), ORDERS))
    made: Job[Any] = Container(configured=configured).job(table=table_name("shop.orders"))
    assert made.attempts == 2
    assert made.read_table_state is not None
    assert made.read_table_state().progress == Progress()


@pytest.mark.parametrize(("text", "rows"), [("", 20_000), ("[spark]\nsmall_batch = 0\n", 0)])
def test_factories_are_given_the_size_of_small_batches(text: str, rows: int, tmp_path: Path) -> None:
    assert Container(configured=load(write(tmp_path, MEMORY, text))).runtime().small_batch == rows
