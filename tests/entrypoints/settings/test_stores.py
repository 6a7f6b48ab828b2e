"""Settings from stores: layers over the file, and a broken entry that fails its table alone."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from commands import Command
from projects import DMS, MEMORY, write
from pydantic import BaseModel
from tenancies import DynamoDb

from lakeward.adapters.memory import MemoryTarget
from lakeward.adapters.settings_stores.file import SettingsFile
from lakeward.core.dimension import Dimension, Ordered, TableName
from lakeward.core.errors import ConfigError, LakewardError, PluginError, StoreUnreachable, TableError
from lakeward.core.ports import DescribedColumn, TableDescription, TableState
from lakeward.core.schema import parse_type
from lakeward.core.settings.secrets import SecretName
from lakeward.entrypoints.api import run
from lakeward.entrypoints.runtime.stop_signal import Stop
from lakeward.entrypoints.settings import reference
from lakeward.entrypoints.settings.configuration import Configuration, from_content, load
from lakeward.entrypoints.settings.secret_masking import HIDDEN, is_secret, mask_secrets, mask_urls
from lakeward.entrypoints.settings.stores import address
from lakeward.entrypoints.startup.context import open_settings
from lakeward.entrypoints.startup.glue_checks import check_glue

STORE = """
    [settings]
    stores = [{ kind = "file", name = "more.json" }]
"""
ORDERS, LINES = TableName("shop", "orders"), TableName("shop", "lines")
FINE = {"key": ["id"], "columns": {"id": "int"}}


def opened(folder: Path, more: dict[str, Any], *parts: str) -> Configuration:
    (folder / "more.json").write_text(json.dumps(more), "utf-8")
    return open_settings(write(folder, MEMORY, STORE, *parts))


def refusal(configured: Configuration, name: TableName) -> ConfigError:
    with pytest.raises(ConfigError) as refused:
        configured.dimension(name)
    return refused.value


def test_a_store_counts_more_than_the_file_key_by_key(tmp_path: Path) -> None:
    said = {"pipeline": {"parallel": 3}, "tables": {"SHOP.orders": {"redelivery": 8}, "shop.lines": FINE}}
    parts = '[tables."shop.orders"]\nkey = ["id"]\nredelivery = 7\n'
    configured = opened(tmp_path, said, parts)
    assert (configured.settings.pipeline.name, configured.settings.pipeline.parallel) == ("shop", 3)
    assert [*configured.tables] == [ORDERS, LINES]
    assert (configured.dimension(ORDERS).key, configured.dimension(ORDERS).lateness) == (("id",), Ordered(8))
    assert not configured.refused


@pytest.mark.parametrize(
    ("own", "said"),
    [
        ({"lateness": "soon"}, "must be a duration"),
        ({"key": "id"}, "should be a valid list"),
        ({"columns": {"id": "intt"}}, "intt"),
        ({**FINE, "mode": ["mirror", "other"]}, "these modes cannot be combined"),
        ({**FINE, "quality": [{"rule": "not_null", "columns": ["none"]}]}, "none"),
        ("key", "must be a table of keys"),
    ],
)
def test_what_is_wrong_with_a_table_of_a_store_fails_it_alone(tmp_path: Path, own: Any, said: str) -> None:
    configured = opened(tmp_path, {"tables": {"shop.orders": own, "shop.lines": FINE}})
    assert configured.dimension(LINES).key == ("id",)
    error = refusal(configured, ORDERS)
    assert ("shop.orders" in str(error), "more.json" in str(error)) == (True, True)
    assert said in str(error)
    assert [*configured.refused] == [ORDERS]


@pytest.mark.parametrize(
    ("of_file", "of_store", "places"),
    [
        ('key = ["id"]', {"ties": "what"}, ["more.json"]),
        ('key = ["id"]\nties = "what"', {"redelivery": 8}, ["lakeward.toml"]),
        ('key = ["is"]', {"history_table": "x"}, ["more.json", "lakeward.toml"]),
    ],
    ids=["of the store", "of the file", "of both, the store first"],
)
def test_what_is_wrong_with_a_table_of_file_and_store_is_named_with_its_place(
    tmp_path: Path, of_file: str, of_store: Any, places: list[str]
) -> None:
    parts = f'[tables."shop.orders"]\n{of_file}\n[tables."shop.lines"]\nkey = ["id"]\n'
    configured = opened(tmp_path, {"tables": {"shop.orders": of_store}}, parts)
    assert configured.dimension(LINES).key == ("id",)
    where = " and ".join(str(tmp_path / place) for place in places)
    assert refusal(configured, ORDERS).what == f"shop.orders: {where}: the settings are not right"


@pytest.mark.parametrize(
    ("defaults", "said"),
    [
        ({"lateness": "soon"}, "[defaults.lateness]: must be a duration"),
        ({"partition_bye": ["id"]}, "[defaults] has no key 'partition_bye'"),
        ({"quarantine": {"max_rows": 1, "rows": 2}}, "[defaults.quarantine] has no key 'rows'"),
        ({"source": {"folders": "x"}}, "[defaults.source] has no key 'folders'"),
    ],
)
@pytest.mark.parametrize("is_in_store", [False, True])
def test_what_is_wrong_with_defaults_stops_all_and_is_said_of_them(
    lakeward: Command, tmp_path: Path, defaults: Any, said: str, is_in_store: bool
) -> None:
    """Of a table that has the key itself nothing is said."""
    own = {"partition_by": ["id"], "lateness": "1h", "quarantine": {}, "source": {}}
    more = {"tables": {"shop.orders": FINE, "shop.lines": FINE, "shop.own": {**FINE, **own}}}
    everywhere = {"defaults": defaults, **more}
    (tmp_path / "landing").mkdir()
    (tmp_path / "more.json").write_text(json.dumps(everywhere if is_in_store else more), "utf-8")
    (tmp_path / "all.json").write_text(json.dumps({"defaults": defaults}), "utf-8")
    base = STORE if is_in_store else STORE.replace("stores = [", 'stores = [{ kind = "file", name = "all.json" }, ')
    write(tmp_path, DMS, base)
    ended = lakeward("settings", "check")
    place = "more.json" if is_in_store else "all.json"
    assert (ended.code, ended.err.splitlines()[0]) == (1, f"error: {place}: the settings are not right")
    assert ended.err.splitlines()[1].strip().startswith(said)
    assert "tables" not in ended.err.replace("under [tables]", "")


def test_a_wrong_key_of_the_file_s_defaults_is_said_of_them_once(lakeward: Command, tmp_path: Path) -> None:
    tables = '[tables."shop.orders"]\nkey = ["id"]\n[tables."shop.lines"]\nkey = 1\n'
    write(tmp_path, MEMORY, '[defaults]\nties = "what"\n', tables)
    lines = lakeward("settings", "check").err.splitlines()
    assert lines[0] == "error: lakeward.toml: the settings are not right"
    said = [line.strip().partition(":")[0] for line in lines[1:3]]
    assert said == ["[defaults.ties]", '[tables."shop.lines".key]']
    wrong = "redelivery = 0\n"
    tables = f'[tables."shop.*"]\n{wrong}[tables."shop.orders"]\n{wrong}[tables."shop.lines"]\n'
    write(tmp_path, MEMORY, "[defaults]\nredelivery = 7\n", tables)
    lines = lakeward("settings", "check").err.splitlines()
    said = [line.strip().partition(".redelivery")[0] for line in lines[1:-1]]
    assert said == [f'[tables."shop.{name}"' for name in ("*", "orders", "lines")], "they say it themselves"


def test_a_table_that_fails_is_not_run_by_the_patterns_that_would_take_it(tmp_path: Path) -> None:
    parts = '[tables."shop.*"]\nkey = ["id"]\n'
    configured = opened(tmp_path, {"tables": {"shop.orders": {"ties": "what"}}}, parts)
    again = configured.with_source_tables([ORDERS, TableName("SHOP", "ORDERS"), LINES])
    assert {*again.tables} == {ORDERS, LINES}
    assert "ties" in str(refusal(again, ORDERS))
    assert again.dimension(LINES).key == ("id",)


def test_what_names_no_table_fails_alone_and_is_shown_as_it_is_written(tmp_path: Path) -> None:
    configured = opened(tmp_path, {"tables": {"orders": FINE, "shop.lines": FINE}})
    assert [*map(str, configured.tables)] == ["shop.lines", "?.orders"]
    assert refusal(configured, TableName("?", "orders")).what == "'orders' does not name a table"


def test_of_two_tables_that_do_not_go_together_the_later_one_fails(tmp_path: Path) -> None:
    names = ("shop.orders", "shop.orders__changes", "shop.lines")
    configured = opened(tmp_path, {"tables": dict.fromkeys(names, FINE)})
    assert [*configured.refused] == [TableName("shop", "orders__changes")]
    assert configured.dimension(ORDERS).key == configured.dimension(LINES).key == ("id",)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"pipeline": {"parallel": 0}}, "parallel"),
        ({"tables": {"shop.*": {"ties": "what"}}}, "ties"),
        ({"settings": {}}, "settings"),
        ({"notify": "oops"}, "notify"),
        ({"notify": None}, "notify"),
        ({"notify": ["oops"]}, "notify"),
    ],
)
def test_what_is_wrong_with_the_rest_stops_all(tmp_path: Path, more: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        opened(tmp_path, {"tables": {"shop.orders": FINE}, **more})
    (tmp_path / "more.json").write_text("{", "utf-8")
    with pytest.raises(ConfigError, match="is no JSON"):
        load(tmp_path / "lakeward.toml")


@pytest.mark.parametrize("of_file", ['[notify]\nkind = "log"\n', '[[notify]]\nkind = "log"\n', ""])
def test_several_notifiers_of_a_store_take_the_place_of_those_of_the_file(tmp_path: Path, of_file: str) -> None:
    topics = [{"kind": "sns", "topic": f"arn:aws:sns:eu-central-1:123456789012:{name}"} for name in "ab"]
    configured = opened(tmp_path, {"notify": topics, "tables": {"shop.orders": FINE}}, of_file)
    assert configured.settings.notify == topics
    one = opened(tmp_path, {"notify": topics[0], "tables": {"shop.orders": FINE}}, '[[notify]]\nkind = "log"\n')
    assert one.settings.notify == topics[:1]


@pytest.mark.parametrize("section", ["tables", "pipeline", "joined", "defaults"])
@pytest.mark.parametrize("said", ["oops", [], None])
def test_a_section_of_a_store_that_is_none_is_refused_with_its_place(
    tmp_path: Path, section: str, said: object
) -> None:
    parts = '[tables."shop.orders"]\nkey = ["id"]\n'
    with pytest.raises(ConfigError, match=rf"more\.json: \[{section}\] must be a table of keys"):
        opened(tmp_path, {section: said}, parts)
    with pytest.raises(ConfigError, match=rf"more\.json: \[{section}\] must be a table of keys"):
        open_settings(f"file:{tmp_path / 'more.json'}")


@pytest.mark.parametrize(
    ("stores", "kind", "said"),
    [
        ("[{ name = 'a' }]", ConfigError, "has no `kind`"),
        ("[{ kind = 'fil', name = 'a' }]", PluginError, "no settings store is called 'fil'"),
        ("[{ kind = 'file' }]", ConfigError, "lacks the key 'name'"),
        ("[{ kind = 'file', name = 'none.toml' }]", ConfigError, "does not exist"),
    ],
)
def test_a_store_that_is_named_wrongly_stops_all(
    tmp_path: Path, stores: str, kind: type[LakewardError], said: str
) -> None:
    file = write(tmp_path, MEMORY, f"[settings]\nstores = {stores}")
    with pytest.raises(kind, match=said):
        load(file)


@pytest.mark.parametrize(
    ("key", "own"),
    [
        pytest.param("partition_bye", {"partition_bye": ["id"]}, id="a key that the table format does not know"),
        pytest.param("folders", {"source": {"folders": "x"}}, id="an option that the source does not know"),
    ],
)
def test_an_unknown_option_of_a_store_fails_its_table_alone_among_patterns(
    tmp_path: Path, key: str, own: dict[str, Any]
) -> None:
    for table in ("orders", "lines"):
        (tmp_path / "landing/shop" / table).mkdir(parents=True)
    (tmp_path / "more.json").write_text(json.dumps({"tables": {"shop.orders": {**FINE, **own}}}), "utf-8")
    configured = open_settings(write(tmp_path, DMS, STORE, '[tables."shop.*"]\nkey = ["id"]\n'))
    assert ([*configured.refused], {*configured.tables}) == ([ORDERS], {ORDERS, LINES})
    assert key in str(refusal(configured, ORDERS))
    assert "more.json" in str(refusal(configured, ORDERS))
    assert configured.dimension(LINES).key == ("id",)


def test_of_tables_that_the_table_format_refuses_together_the_later_one_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build_target(options: Any, _: Any) -> MemoryTarget:
        folders = [own.get("folder") for own in options["tables"].values()]
        if len({*folders}) < len(folders):
            raise ConfigError("two tables have one folder")
        return MemoryTarget()

    monkeypatch.setattr("lakeward.adapters.memory.build_target", build_target)
    tables = {name: {**FINE, "folder": folder} for name, folder in {"a.a": "x", "a.b": "y", "a.c": "x"}.items()}
    configured = opened(tmp_path, {"tables": tables})
    assert [*map(str, configured.refused)] == ["a.c"]
    assert "two tables have one folder" in str(configured.refused[TableName("a", "c")])


def test_what_may_be_over_soon_refuses_no_table_and_is_left_for_a_later_run(
    lakeward: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def build_target(options: Any, _: Any) -> MemoryTarget:
        names = [*map(str, options["tables"])]
        if "a.c" in names:
            raise ConfigError("a.c has no folder")
        if "a.a" in names:
            raise StoreUnreachable("the catalog does not answer")
        return MemoryTarget()

    monkeypatch.setattr("lakeward.adapters.memory.build_target", build_target)
    configured = opened(tmp_path, {"tables": dict.fromkeys(("a.a", "a.b", "a.c"), FINE)})
    assert [*map(str, configured.refused)] == ["a.c"]
    assert lakeward("run").code == 75


def test_files_are_not_put_away_while_an_entry_that_may_read_them_fails(tmp_path: Path) -> None:
    history = {"reads": "shop.orders", "ties": "what"}
    configured = opened(tmp_path, {"tables": {"shop.orders": FINE, "shop.orders_history": history}})
    assert configured.siblings_of(ORDERS) == [TableName("shop", "orders_history")]
    tables = {"shop.orders": {**FINE, "source": {"cursor": "at"}}, "shop.orders_history": history}
    (tmp_path / "more.json").write_text(json.dumps({"tables": tables}), "utf-8")
    assert load(tmp_path / "lakeward.toml").source_options() == {ORDERS: {"cursor": "at"}}
    configured = opened(tmp_path, {"tables": {"shop.orders": FINE, "shop.orders_history": "?"}})
    assert configured.siblings_of(ORDERS) == [TableName("shop", "orders_history")]


def test_a_program_names_stores_as_a_file_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("more.toml").write_text('[tables."shop.orders"]\nkey = ["id"]\n', "utf-8")
    said = {"pipeline": {"name": "shop"}, "source": {"kind": "memory"}, "target": {"kind": "memory"}}
    configured = from_content({**said, "settings": {"stores": [{"kind": "file", "name": "more.toml"}]}}, Path("x"))
    assert configured.merged.places["tables", "shop.orders", "key"] == "more.toml"


@pytest.mark.parametrize(
    ("place", "found"),
    [
        ("lakeward.toml", None),
        ("a/b:c.toml", None),
        ("ssm:is-a-file", None),
        (Path("ssm:shop"), None),
        ("ssm:/lakeward/shop", {"kind": "ssm", "name": "/lakeward/shop"}),
        ("s3://shop/lakeward.toml", {"kind": "s3", "name": "s3://shop/lakeward.toml"}),
        ("dynamodb:tables", {"kind": "dynamodb", "name": "tables"}),
        ("file:lakeward.toml", {"kind": "file", "name": "lakeward.toml"}),
    ],
)
def test_an_address_is_told_from_a_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: Path | str, found: object
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("ssm:is-a-file").touch()
    assert address(place) == found


class SilentBoard(SettingsFile):
    """Settings of a file, into which nothing can be written back, for a reason that is not known."""

    def write(self, _: object) -> None:
        raise StoreUnreachable("the board does not answer")


def test_a_warning_of_what_cannot_be_written_back_says_no_more_than_is_known(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakeward.adapters.settings_stores.file.SettingsFile", SilentBoard)
    opened(tmp_path, {"tables": {"shop.orders": FINE}})
    document = run(str(tmp_path / "lakeward.toml"), log="off")
    assert document["warnings"] == ["The status of tables could not be written back: the board does not answer."]


# The commands.


@pytest.fixture
def mixed(tmp_path: Path) -> Path:
    """Settings of which one table fails, one is left out, and one is fine."""
    parts = '[defaults]\nredelivery = 7\n[tables."shop.*"]\nties = "fail"\n[tables."shop.orders"]\nkey = ["id"]\n'
    write(tmp_path, MEMORY, STORE, parts)
    tables = {"SHOP.orders": {"lateness": "soon"}, "shop.lines": {**FINE, "columns": {"id": "int"}}}
    more = {"tables": {**tables, "shop.old": {"skip": True}}}
    (tmp_path / "more.json").write_text(json.dumps(more), "utf-8")
    return tmp_path


@pytest.mark.usefixtures("mixed")
def test_check_says_what_is_wrong_by_table_and_ends_with_1(lakeward: Command) -> None:
    ended = lakeward("settings", "check")
    assert ended.code == 1
    assert "error: shop.orders: more.json: the settings are not right" in ended.err
    assert "1 table fails until this is fixed" in ended.out
    document = lakeward("settings", "check", "--json").document
    listed = {one["table"]: (one["from"], one["left_out"], one["error"] is None) for one in document["tables"]}
    assert listed == {
        "shop.lines": (["more.json"], False, True),
        "shop.orders": (["lakeward.toml", "more.json"], False, False),
        "shop.old": (["more.json"], True, True),
    }
    assert (document["exit_code"], document["schema_version"]) == (1, 2)


def test_check_of_settings_that_are_fine_ends_with_0(lakeward: Command, tmp_path: Path) -> None:
    write(tmp_path, MEMORY, '[tables."shop.*"]\nkey = ["id"]\n')
    ended = lakeward("settings", "check")
    assert (ended.code, ended.out.splitlines()[-1]) == (0, "Nothing is wrong. Next: `lakeward plan`")
    write(tmp_path, MEMORY, '[tables."shop.orders"]\nkye = 1\nlateness = "soon"\n')
    assert lakeward("settings", "check").code == 1


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ('[queue]\nkind = "sqs"\nurl = "landing"', "[queue.url]"),
        ('[queue]\nkind = "sqs"\nurl = "https://sqs/1/landing"\ntables = ["a"]', "there is no key `tables`"),
        ('[queue]\nkind = "sqlite"\ntables_at = "a"', "there is no key `tables_at`"),
        ('[queue]\nkind = "sqlite"\nvisible = "1m"', "no key 'visible'"),
        ('[queue]\nkind = "poll"\nvisibility = "1m"', "there is no key `visibility`"),
        ('[ledger]\nkind = "dynamodb"', "[ledger] lacks the key 'table'"),
        ('[lease]\ntable = "leases"', "[lease] has no `kind`"),
        ('[lease]\nkind = "dynamodb"\ntable = "leases"\nttl = "1s"', "[lease.ttl]"),
        ('[statistics]\nkind = "file"\nplace = "a"', "no key 'place'"),
    ],
)
def test_check_says_what_is_wrong_with_queue_ledger_and_lease(
    lakeward: Command, tmp_path: Path, section: str, said: str
) -> None:
    write(tmp_path, MEMORY, f"{section}\n", '[tables."shop.orders"]\nkey = ["id"]\n')
    ended = lakeward("settings", "check")
    assert ended.code == 1
    assert said in " ".join(ended.err.split())


CATALOGUE = """
[catalogue]
kind = "jdbc"
url = "jdbc:postgresql://127.0.0.1:1/shop"
user = "me"
password = { env = "DB_PASSWORD" }
"""
HASHED = """
[tables."shop.orders"]
key = ["id"]
columns = { id = "int", token = "string" }
rules = [{ rule = "hash", column = "token", to = "h", key = "env:PEPPER" }]
"""


def parts(document: Any) -> dict[str, list[tuple[str, str | None]]]:
    """Return what became of the parts of a check, with what is wrong."""
    found: dict[str, list[tuple[str, str | None]]] = {}
    for one in document["parts"]:
        found.setdefault(one["part"], []).append((one["outcome"], one["error"] and one["error"]["what"]))
    return found


def test_check_finds_all_that_a_run_would_refuse_at_first_and_writes_nothing(
    lakeward: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A secret that is not there, one that is too short, a queue that is not right: all at once."""
    (tmp_path / "landing/shop/orders").mkdir(parents=True)
    monkeypatch.delenv("DB_PASSWORD", raising=False)
    monkeypatch.setenv("PEPPER", "short")
    write(tmp_path, DMS, CATALOGUE, '[queue]\nkind = "sqlite"\nvisible = "1m"\n', HASHED)
    before = sorted(tmp_path.rglob("*"))
    ended = lakeward("settings", "check", "--json")
    assert sorted(tmp_path.rglob("*")) == before
    found = parts(ended.document)
    missing = "the secret env:DB_PASSWORD is not there"
    assert ended.code == ended.document["exit_code"] == 1
    assert found == {
        "catalogue": [("wrong", missing)],
        "secrets": [("wrong", missing), ("wrong", "the secret env:PEPPER is too short")],
        "source": [("read", None)],
        "tables": [("read", None)],
        "ledger": [("read", None)],
        "queue": [("wrong", "lakeward.toml: the settings are not right")],
        "rules": [("not checked: this needs Spark (`lakeward plan`)", None)],
    }
    said = lakeward("settings", "check")
    assert said.err.count(missing) == 1
    assert said.out.splitlines()[-1] == "Fix this before a run."


def test_check_asks_no_service_where_it_is_told_not_to(
    lakeward: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PEPPER", raising=False)
    write(tmp_path, DMS, CATALOGUE, '[queue]\nkind = "sqlite"\n', HASHED)
    ended = lakeward("settings", "check", "--no-ask", "--json")
    assert ended.code == 0
    outcomes = {name: outcome for name, [(outcome, _)] in parts(ended.document).items()}
    hides = "not queried: a received notice is hidden from other runs"
    not_asked = dict.fromkeys(("catalogue", "source", "tables", "ledger"), "not queried")
    assert {**not_asked, "secrets": "not read", "queue": hides}.items() <= outcomes.items()


GLUE = """
[pipeline]
name = "shop"
[source]
kind = "memory"
[target]
kind = "delta"
warehouse = "{}"
[registration]
kind = "glue"
[registration.lake_formation]
{}
[tables."shop.orders"]
key = ["id"]
columns = {{ id = "int", total = "int" }}
"""
SELECT = 'principal = "123456789012", permissions = ["SELECT"]'


def test_check_refuses_a_warehouse_on_disk_that_glue_cannot_register(lakeward: Command, tmp_path: Path) -> None:
    write(tmp_path, GLUE.format("lake/", ""))
    refused = ("wrong", "lakeward.toml: tables that are not in S3 cannot be registered in Glue")
    for ask in ("--ask", "--no-ask"):
        ended = lakeward("settings", "check", ask, "--json")
        assert (ended.code, parts(ended.document)["registration"]) == (1, [refused])
    write(tmp_path, GLUE.format("s3://lake/tables", ""))
    assert lakeward("settings", "check", "--no-ask").code == 0


@pytest.mark.parametrize(
    "access",
    [
        f'grants = [{{ {SELECT}, all_but = ["NAME"] }}]',
        f'[registration.lake_formation.tables."shop.orders"]\ngrants = [{{ {SELECT}, all_but = ["NAME"] }}]',
        f'[registration.lake_formation.tables."shop.orders"]\ngrants = [{{ {SELECT}, columns = ["NAME"] }}]',
        '[registration.lake_formation.tables."shop.orders"]\ncolumn_tags = { NAME = { pii = "yes" } }',
    ],
)
def test_check_refuses_a_misspelt_column_of_a_grant_or_a_tag(
    lakeward: Command, tmp_path: Path, access: str
) -> None:
    write(tmp_path, GLUE.format("s3://lake/tables", access.replace("NAME", "totl")))
    ended = lakeward("settings", "check", "--no-ask", "--json")
    (error,) = (part["error"] for part in ended.document["parts"] if part["part"] == "registration")
    assert error["what"] == "access to shop.orders in Lake Formation: the table has no column 'totl'"
    assert (error["found"], error["todo"]) == ("the columns are id, total", "Did you mean 'total'?")
    for name in ("Total", "_lakeward_position"):
        write(tmp_path, GLUE.format("s3://lake/tables", access.replace("NAME", name)))
        assert lakeward("settings", "check", "--no-ask").code == 0


def test_check_takes_the_columns_of_a_table_that_exists(tmp_path: Path) -> None:
    """Columns that nobody declared are those of the table; without a query they are unknown, and not checked."""
    access = f'grants = [{{ {SELECT}, all_but = ["totl"] }}]'
    text = GLUE.format("s3://lake/tables", access).replace('columns = { id = "int", total = "int" }', "")
    configured = open_settings(write(tmp_path, text))
    columns = tuple(DescribedColumn(name=name, type=parse_type("int")) for name in ("id", "total"))
    described = TableDescription(
        namespace="shop", name="orders", format="delta", location="s3://lake/tables/shop/orders", columns=columns
    )
    lake = SimpleNamespace(identify=lambda name: name, describe=lambda name: described)
    check_glue(configured, lake, asks=False)
    with pytest.raises(ConfigError, match="the table has no column 'totl'"):
        check_glue(configured, lake, asks=True)


def test_check_says_which_table_cannot_be_read_and_that_the_lake_or_the_ledger_does_not_answer(
    lakeward: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    errors: dict[TableName, LakewardError] = {}
    usual = MemoryTarget.table_state

    def table_state(self: MemoryTarget, dimension: Dimension) -> TableState:
        if dimension.name in errors:
            raise errors[dimension.name]
        return usual(self, dimension)

    monkeypatch.setattr(MemoryTarget, "table_state", table_state)
    write(tmp_path, MEMORY, '[tables."shop.orders"]\nkey = ["id"]\n[tables."shop.lines"]\nkey = ["id"]\n')
    errors[LINES] = TableError("shop.lines: its metadata are gone")
    document = lakeward("settings", "check", "--json").document
    assert [one["table"] for one in document["tables"] if one["error"] is not None] == ["shop.lines"]
    assert parts(document)["tables"] == [("read", None)]
    assert "1 table fails until this is fixed" in lakeward("settings", "check").out
    errors[ORDERS] = StoreUnreachable("the catalog does not answer")
    assert parts(lakeward("settings", "check", "--json").document)["tables"] == [
        ("wrong", "the catalog does not answer")
    ]
    errors.clear()
    (tmp_path / "state").mkdir()
    (tmp_path / "state/ledger.db").write_text("no ledger, and long enough to be told from an empty one" * 20)
    ((outcome, what),) = parts(lakeward("settings", "check", "--json").document)["ledger"]
    assert (outcome, str(what).endswith("ledger.db cannot be used")) == ("wrong", True)


@pytest.mark.usefixtures("mixed")
def test_the_others_are_planned_run_and_shown_and_what_is_left_out_is_said(lakeward: Command) -> None:
    for command in ("plan", "run", "status"):
        document = lakeward(command, "--json").document
        errors = {one["table"]: (one.get("error") or {}).get("kind") for one in document["tables"]}
        assert errors == {"shop.lines": None, "shop.orders": "ConfigError"}, command
        assert document["warnings"] == ["shop.old is left out, as more.json says."]
        assert document["exit_code"] == 4


class Moving(Stop):
    """Time passes where the process pauses, and no other; `then` is done in the first pause."""

    now, then = 0.0, staticmethod(lambda: None)

    def __init__(self, say: Callable[[str], None], *, until: float | None = None) -> None:
        super().__init__(say, until=200.0, clock=lambda: self.now)

    def pause(self, seconds: float) -> None:
        Moving.then()
        self.now += seconds


@pytest.mark.parametrize("has_lease", [False, True])
def test_a_process_that_follows_takes_in_what_changes_in_a_store(
    lakeward: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, dynamodb: DynamoDb, has_lease: bool
) -> None:
    """The lease stays that of the process, whatever tables there are."""

    def change() -> None:
        tables = {"shop.lines": FINE, "shop.orders": {**FINE, "skip": True}}
        (tmp_path / "more.json").write_text(json.dumps({"tables": tables}), "utf-8")

    monkeypatch.setattr(dynamodb, "clock", lambda: time.time_ns() // 1000)
    lease = f'[lease]\nkind = "dynamodb"\ntable = "{dynamodb.table}"\n' if has_lease else ""
    monkeypatch.setattr("lakeward.entrypoints.commands.run.Stop", Moving)
    monkeypatch.setattr(Moving, "then", staticmethod(change))
    (tmp_path / "more.json").write_text(json.dumps({"tables": {"shop.orders": FINE}}), "utf-8")
    write(tmp_path, MEMORY, STORE, lease)
    ended = lakeward("run", "--follow", "--json", "--log", "json")
    assert ended.code == 0
    assert [one["table"] for one in ended.document["tables"]] == ["shop.orders", "shop.lines"]
    assert ended.document["warnings"] == ["shop.orders is left out, as more.json says."]
    lines = [json.loads(line) for line in ended.err.splitlines()]
    (line,) = [line for line in lines if line["event"] == "the settings have changed"]
    assert (line["new"], line["left_out"]) == (["shop.lines"], ["shop.orders"])
    items = dynamodb.client.scan(TableName=dynamodb.table, ConsistentRead=True)["Items"]
    assert [item["owner"]["S"] for item in items] == ["", ""] * has_lease, "it is given back"


@pytest.mark.usefixtures("mixed")
def test_a_table_that_is_left_out_is_named_with_the_place_that_says_so(lakeward: Command, tmp_path: Path) -> None:
    ended = lakeward("run", "SHOP.old")
    left_out = ["error: shop.old is left out", "  `skip = true`, or `enabled = false`, stands in more.json"]
    assert (ended.code, ended.err.splitlines()[:2]) == (1, left_out)
    tables = '[tables."shop.*"]\nskip = true\n[tables."shop.b"]\nskip = false\n[tables."shop.old"]\n'
    write(tmp_path, MEMORY, tables)
    assert "  `skip = true` stands in lakeward.toml" in lakeward("run", "shop.old").err
    assert "shop.c is not configured" in lakeward("run", "shop.c").err


@pytest.mark.usefixtures("mixed")
def test_each_value_is_shown_with_its_place(lakeward: Command) -> None:
    def shown(*arguments: str) -> list[tuple[str, Any, str]]:
        document = lakeward("settings", "show", *arguments, "--json").document
        return [(one["key"], one["value"], one["from"]) for one in document["values"]]

    assert shown()[:5] == [
        ("pipeline.name", "shop", "lakeward.toml"),
        ("source.kind", "memory", "lakeward.toml"),
        ("target.kind", "memory", "lakeward.toml"),
        ("settings.stores", [{"kind": "file", "name": "more.json"}], "lakeward.toml"),
        ("defaults.redelivery", 7, "lakeward.toml"),
    ]
    assert ('tables."shop.orders".lateness', "soon", "more.json") in shown()
    assert shown("shop.orders") == [
        ("redelivery", 7, "lakeward.toml, [defaults]"),
        ("ties", "fail", 'lakeward.toml, [tables."shop.*"]'),
        ("key", ["id"], "lakeward.toml"),
        ("lateness", "soon", "more.json"),
    ]
    assert ("columns.id", "int", "more.json") in shown("shop.lines")
    assert shown("shop.new") == shown("shop.orders")[:2]
    assert 'lakeward.toml, [tables."shop.*"]' in lakeward("settings", "show", "shop.new").out
    refused = lakeward("settings", "show", "other.orders")
    assert (refused.code, "other.orders is not configured" in refused.err) == (1, True)


def models(model: type[BaseModel]) -> Iterator[type[BaseModel]]:
    yield model
    for inner in model.__subclasses__():
        yield from models(inner)


def test_the_key_of_every_secret_is_known_to_hide_it() -> None:
    assert reference.page()  # it imports the models of all adapters
    keys = {
        name
        for model in models(BaseModel)
        for name, one in model.model_fields.items()
        if SecretName.__name__ in str(one.annotation)
    }
    assert keys >= {"password", "key"}
    others = [key for key in keys if not is_secret(key, "text")]
    assert [key for key in others if mask_urls("https://example.com", key, ["env"]) != HIDDEN] == []


def test_secrets_are_hidden_wherever_they_stand(lakeward: Command, tmp_path: Path) -> None:
    write(
        tmp_path,
        MEMORY,
        """
        [catalogue]
        kind = "jdbc"
        url = "jdbc:postgresql://lakeward:hunter2@db/shop?password=hunter2&ssl=true"
        password = "hunter2"
        [spark.settings]
        "spark.hadoop.fs.s3a.secret.key" = "hunter2"
        "spark.of.a.team" = "hunter2"
        [tables."shop.orders"]
        key = ["id"]
        rules = [{ rule = "hash", column = "id", to = "h", key = "hunter2" }]
        [tables."shop.lines"]
        rules = [{ rule = "hash", column = "id", to = "h", key = { env = "PEPPER" } }]
        """,
    )
    for arguments in ((), ("--json",), ("shop.orders",)):
        ended = lakeward("settings", "show", *arguments)
        assert ended.code == 0
        assert "hunter2" not in ended.out + ended.err
    assert "PEPPER" in lakeward("settings", "show").out
    assert '["id"]' in lakeward("settings", "show", "shop.orders").out


@pytest.mark.parametrize(
    "text",
    [
        "jdbc:postgresql://u:p@ss@h/db",
        "//u:p/w@h",
        "https://hunter2@host/x",
        "redis://hunter2@host",
        "scott/tiger@db",
        'user=sa;password="my pw, with;semi"',
        "password={a;b}",
        "jdbc:sqlserver://h;user=sa;pwd=hunter2",
        "SharedAccessSignature=sv=1&sig=abc",
        "https://h/x?sv=1&sig=abc",
        "jdbc:oracle:thin:scott/tiger@//h",
        '{"password": "hunter2"}',
        "-----BEGIN PRIVATE KEY-----\nhunter2",
        "Basic aHVudGVyMg==",
    ],
)
def test_a_text_that_holds_a_secret_is_hidden_whole(text: str) -> None:
    assert mask_secrets(text, "url", ["env"]) == HIDDEN
    assert mask_secrets({"a": [text]}, "source", ["env"]) == {"a": [HIDDEN]}
    assert mask_secrets({"type": text}, "properties", ["env"]) == {"type": HIDDEN}


@pytest.mark.parametrize(
    "key",
    [
        *(
            "Authorization",
            "basic.auth.user.info",
            "ssl.keystore.key",
            "ssl_key",
            "sslKey",
            "pw",
            "pass",
            "passcode",
        ),
        *("fs.azure.account.key.acme", "X-Amz-Signature", "sig"),
    ],
)
def test_a_value_whose_key_is_that_of_a_secret_is_hidden(key: str) -> None:
    assert mask_secrets("abc", key, ["env"]) == HIDDEN
    assert mask_secrets({key: "abc"}, "source", ["env"]) == {key: HIDDEN}
    for shown in ({"env": "X"}, "env:X"):
        assert mask_secrets(shown, key, ["env"]) == shown


@pytest.mark.parametrize("key", ["properties", "catalog_properties", "settings"])
def test_of_maps_for_others_what_is_not_known_to_be_harmless_is_hidden(key: str) -> None:
    shown = {
        "write.target-file-size-bytes": "1",
        "spark.sql.shuffle.partitions": "8",
        "sslmode": "require",
        "uri": "https://host/api",
        "fips": True,
        "of": {"env": "X"},
    }
    secret = {
        "something": "abc",
        "spark.sql.catalog.lake.other": "abc",
        "write.password": "abc",
        "hoodie.datasource.hive_sync.jdbcurl": "jdbc:hive2://u:abc@h",
    }
    assert mask_secrets({**shown, **secret}, key, ["env"]) == {**shown, **dict.fromkeys(secret, HIDDEN)}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("key", ["id"]),
        ("columns", {"token": "string", "customer_key": {"type": "int"}}),
        ("path", "s3://acme-landing/shop"),
        ("warehouse", "abfss://lake@acme.dfs.core.windows.net/tables"),
        ("url", "jdbc:sqlserver://db.example.org:1433;databaseName=erp"),
        ("url", "jdbc:oracle:thin:@//db:1521/shop"),
        ("name", "arn:aws:secretsmanager:eu-central-1:1:secret:hudi/shop"),
        ("password", "env:DB_PASSWORD"),
        ("stores", [{"kind": "secretsmanager", "name": "hudi/"}]),
        ("previous_key", False),
    ],
)
def test_what_is_no_secret_is_shown(key: str, value: object) -> None:
    assert mask_secrets(value, key, ["env"]) == value


@pytest.mark.usefixtures("mixed")
@pytest.mark.parametrize(
    "command", [("status", "--schema"), ("quarantine", "list"), ("ledger", "rebuild"), ("maintain",)]
)
def test_other_commands_go_on_with_the_others_and_say_what_is_wrong(
    lakeward: Command, command: tuple[str, ...]
) -> None:
    ended = lakeward(*command)
    assert ended.code == 4
    assert "error: shop.orders: more.json: the settings are not right" in ended.err
    assert lakeward(*command, "shop.lines").code == 0
    assert lakeward(*command, "shop.orders").code in (1, 4)


def test_a_history_that_fails_is_not_taken_for_verified(lakeward: Command, tmp_path: Path) -> None:
    parts = '[tables."shop.orders"]\nkey = ["id"]\nmode = "history"\n'
    opened(tmp_path, {"tables": {"shop.orders": {"ties": "what"}}}, parts)
    ended = lakeward("verify", "--history", "--json")
    assert (ended.code, ended.document["tables"][0]["error"]["kind"]) == (4, "ConfigError")


def test_what_a_rule_needs_and_has_not_fails_its_table_alone(lakeward: Command, tmp_path: Path) -> None:
    rules = [{"rule": "hash", "column": "id", "to": "hashed", "key": "env:NO_SUCH_VARIABLE_OF_A_TEST"}]
    opened(tmp_path, {"tables": {"shop.orders": {**FINE, "rules": rules}, "shop.lines": FINE}})
    errors = [(one.get("error") or {}).get("what") for one in lakeward("plan", "--json").document["tables"]]
    assert errors == ["shop.orders: the secret env:NO_SUCH_VARIABLE_OF_A_TEST is not there", None]
