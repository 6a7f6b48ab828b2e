"""The catalogue of a database that runs, held to the kit; and what drivers tell of others."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any

import pytest
import servers

from lakeward.adapters.catalogues import build_jdbc
from lakeward.adapters.catalogues.jdbc import Native, type_of
from lakeward.adapters.secrets.local import EnvironmentSecrets
from lakeward.core.dimension import TableName
from lakeward.core.errors import CatalogueUnreachable, ConfigError
from lakeward.core.ports import SourceCatalogue
from lakeward.core.schema import parse_type
from lakeward.core.settings.secrets import Secret
from lakeward.core.settings.source_catalogue import SourceColumn, SourceTable
from lakeward.entrypoints.cli import main
from lakeward.entrypoints.startup.context import open_settings
from lakeward.plugins import Runtime
from lakeward.plugins.testing import CatalogueUnderTest, catalogue_contract

CUSTOMER = TableName("shop", "customer")


def catalogue(server: servers.Server, *, word: str | None = None, **options: Any) -> SourceCatalogue:
    secrets = EnvironmentSecrets({"DB": server.password if word is None else word})
    runtime = Runtime(lambda: None, secret=lambda name: secrets.read(name.name))
    given = {"url": server.url, "user": server.user, "password": {"env": "DB"}, **options}
    return build_jdbc(given, runtime)


def gone() -> SourceCatalogue:
    secrets = EnvironmentSecrets({"DB": "hunter2"})
    runtime = Runtime(lambda: None, secret=lambda name: secrets.read(name.name))
    url = f"jdbc:postgresql://127.0.0.1:{servers.free_port()}/shop"
    return build_jdbc({"url": url, "user": "shop", "password": {"env": "DB"}}, runtime)


def column(name: str, type_: str | None, comment: str | None = None) -> SourceColumn:
    return SourceColumn(name=name, written="", type=None if type_ is None else parse_type(type_), comment=comment)


def test_a_password_that_was_just_changed_is_read_again_once(postgresql: servers.Server) -> None:
    def having(*words: str) -> tuple[SourceCatalogue, list[str]]:
        rest = [*words]
        given = {"url": postgresql.url, "user": postgresql.user, "password": {"env": "DB"}}
        return build_jdbc(given, Runtime(lambda: None, secret=lambda _: Secret(rest.pop(0).encode()))), rest

    asked, rest = having("old", postgresql.password)
    assert (asked.describe([]), rest) == ({}, [])
    for words in (["old", "old"], ["old", "older"]):
        asked, rest = having(*words, "never asked for")
        with pytest.raises(CatalogueUnreachable):
            asked.describe([])
        assert rest == ["never asked for"]


ORDERS = SourceTable(
    name=TableName("kit", "orders"),
    columns=(
        column("b", "int"),
        column("id", "bigint"),
        column("odd", None),
        column("net", "decimal(12,2)", "without tax"),
    ),
    key=("id", "b"),
    comment="what was bought",
)
LINES = SourceTable(name=TableName("kit", "Lines"), columns=(column("N", "int"),))
NAMESAKES = [
    SourceTable(name=TableName("kit", "twin"), columns=(column("a", "int"),), key=("a",)),
    SourceTable(name=TableName("kit", "TWIN"), columns=(column("b", "int"),)),
]


@pytest.fixture(scope="module")
def in_postgresql(postgresql: servers.Server) -> CatalogueUnderTest:
    postgresql.tell("""
        CREATE SCHEMA kit; CREATE TABLE kit.twin (a int PRIMARY KEY); CREATE TABLE kit."TWIN" (b int);
        CREATE TABLE kit.orders (b int, id bigint, odd numeric, net numeric(12,2), PRIMARY KEY (id, b));
        CREATE TABLE kit."Lines" ("N" int);
        COMMENT ON TABLE kit.orders IS 'what was bought'; COMMENT ON COLUMN kit.orders.net IS 'without tax'""")
    return CatalogueUnderTest(catalogue=catalogue(postgresql), tables=[ORDERS, LINES, *NAMESAKES], gone=gone())


@pytest.fixture(scope="module")
def in_mariadb(mariadb: servers.Server) -> CatalogueUnderTest:
    mariadb.tell("""
        CREATE DATABASE kit; CREATE TABLE kit.Lines (N int);
        CREATE TABLE kit.orders (
            b int, id bigint, odd bit(8), net decimal(12,2) COMMENT 'without tax', PRIMARY KEY (id, b)
        ) COMMENT 'what was bought'""")
    return CatalogueUnderTest(catalogue=catalogue(mariadb), tables=[ORDERS, LINES], gone=gone())


TestPostgresql = catalogue_contract(lambda in_postgresql: in_postgresql)
TestMariadb = catalogue_contract(lambda in_mariadb: in_mariadb)


def types(table: SourceTable) -> str:
    return ", ".join(f"{column.name} {column.type}" for column in table.columns)


def test_postgresql_tells_types_odd_names_and_views(postgresql: servers.Server) -> None:
    postgresql.tell("""
        CREATE SCHEMA shop; CREATE TYPE shop.mood AS ENUM ('sad', 'ok'); CREATE DOMAIN shop.tag AS text;
        CREATE TABLE shop.customer (
            b int, id bigserial, name varchar(40), net numeric(12,2), free numeric, at timestamptz,
            local timestamp(3), born date, raw bytea, ok boolean, f real, d double precision, doc jsonb, u uuid,
            tags text[], nums int4[], feel shop.mood, labelled shop.tag, spent money, t time, i interval,
            PRIMARY KEY (id, b));
        CREATE VIEW shop.v AS SELECT id FROM shop.customer;
        CREATE TABLE shop."Odd_%" (a int)""")
    odd, view = TableName("shop", "Odd_%"), TableName("shop", "v")
    found = catalogue(postgresql).describe([CUSTOMER, odd, view])
    assert (found[odd].names, found[view].key) == (("a",), ())
    assert types(found[CUSTOMER]) == (
        "b int, id bigint, name string, net decimal(12,2), free None, at timestamp, local timestamp_ntz, "
        "born date, raw binary, ok boolean, f float, d double, doc string, u string, tags string, nums string, "
        "feel string, labelled None, spent string, t string, i string"
    )


def test_init_asks_the_database_and_writes_where_the_password_is(
    postgresql: servers.Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    postgresql.tell(
        "CREATE SCHEMA web; CREATE TABLE web.visit (id bigint PRIMARY KEY, page text, net numeric(8,2))"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("DB", postgresql.password)
    file = tmp_path / "landing/web/visit/LOAD00000001.csv"
    file.parent.mkdir(parents=True)
    file.write_text("1,/home,2.50\n", "utf-8")
    asked = ["--catalogue", postgresql.url, "--user", postgresql.user, "--password", "env:DB"]
    assert main(["init", "landing", *asked]) == 0, capsys.readouterr().err
    written = (tmp_path / "lakeward.toml").read_text("utf-8")
    catalogue = {"kind": "jdbc", "url": postgresql.url, "user": postgresql.user, "password": {"env": "DB"}}
    assert tomllib.loads(written)["catalogue"] == catalogue
    assert postgresql.password not in written
    assert "key id" in written
    assert open_settings(tmp_path / "lakeward.toml", asks=True).dimension(TableName("web", "visit")).key == ("id",)


def test_mariadb_tells_types(mariadb: servers.Server) -> None:
    mariadb.tell("""
        CREATE DATABASE shop; CREATE DATABASE other; CREATE TABLE other.customer (x int);
        CREATE TABLE shop.customer (
            b int, id bigint unsigned, small tinyint(1), n int unsigned, net decimal(12,2) unsigned, f float,
            d double, flag bit(1), flags bit(8), y year, at timestamp, local datetime(6), born date, t time,
            state enum('a','b'), doc json, name varchar(40), body longtext, raw varbinary(16),
            big longblob)""")
    assert types(catalogue(mariadb).describe([CUSTOMER])[CUSTOMER]) == (
        "b int, id decimal(20,0), small int, n bigint, net decimal(12,2), f double, d double, flag boolean, "
        "flags None, y int, at timestamp, local timestamp_ntz, born date, t string, state string, doc string, "
        "name string, body string, raw binary, big binary"
    )


def test_a_wrong_password_and_a_missing_server_are_errors_without_secrets(postgresql: servers.Server) -> None:
    wrong = catalogue(postgresql, word="hunter2")
    with pytest.raises(CatalogueUnreachable, match="password") as refused:
        wrong.describe([CUSTOMER])
    assert "hunter2" not in repr(refused.value)
    assert refused.value.__cause__ is None
    gone = catalogue(postgresql, url=f"jdbc:postgresql://127.0.0.1:{servers.free_port()}/shop?word=hunter2")
    with pytest.raises(CatalogueUnreachable, match="does not answer") as refused:
        gone.describe([CUSTOMER])
    assert postgresql.password not in f"{refused.value!r} {gone!r}"
    assert "hunter2" not in repr(refused.value), "who named that a `word` may have meant a password"


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"password": "hunter2"}, "a secret does not stand here"),
        ({"password": {"env": "A", "file": "hunter2"}}, "a secret does not stand here"),
        ({"url": "jdbc:postgresql://shop:hunter2@db/shop"}, "must have no password in it"),
        ({"url": "jdbc:postgresql://db/shop?password=hunter2"}, "must have no password in it"),
        ({"url": "jdbc:postgresql://db/shop?user=shop&pass=hunter2"}, "must have no password in it"),
        ({"url": "jdbc:mysql://(host=db,user=shop,pw=hunter2)/shop"}, "must have no password in it"),
        ({"url": "jdbc:db2://db/shop:user=shop;p%61ssphrase=hunter2"}, "must have no password in it"),
        ({"url": "jdbc:oracle:thin:shop/hunter2@//db:1521/x"}, "must have no password in it"),
        ({"properties": {"sslpassword": "hunter2"}}, "sslpassword does not stand here"),
        ({"properties": {"credential": "hunter2"}}, "credential does not stand here"),
        ({"url": "hunter2"}, "must be a URL of JDBC"),
        ({"drivers": [{"coordinates": "a:b:1"}]}, "lacks the key 'sha256'"),
    ],
)
def test_secrets_in_the_settings_are_refused_and_not_shown(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said) as refused:
        build_jdbc({"url": "jdbc:postgresql://db/shop", **options}, Runtime(lambda: None))
    assert "hunter2" not in repr(refused.value)
    assert refused.value.__suppress_context__


def test_a_database_whose_driver_nobody_knows_wants_its_jars() -> None:
    made = build_jdbc({"url": "jdbc:db2://db/shop"}, Runtime(lambda: None))
    with pytest.raises(ConfigError, match="no driver is known for jdbc:db2"):
        made.describe([CUSTOMER])


@pytest.mark.parametrize(
    ("database", "native", "ours"),
    [
        # learn.microsoft.com/sql/connect/jdbc/using-basic-data-types
        ("sqlserver", Native("int identity", 4, 10, 0), "int"),
        ("sqlserver", Native("numeric() identity", 2, 18, 0), "decimal(18,0)"),
        ("sqlserver", Native("decimal", 3, 12, 2), "decimal(12,2)"),
        ("sqlserver", Native("money", 3, 19, 4), "decimal(19,4)"),
        ("sqlserver", Native("datetime2", 93, 27, 7), "timestamp_ntz"),
        ("sqlserver", Native("datetimeoffset", -155, 34, 7), "timestamp"),
        ("sqlserver", Native("nvarchar", -9, 2147483647), "string"),
        ("sqlserver", Native("uniqueidentifier", 1, 36), "string"),
        ("sqlserver", Native("timestamp", -2, 8), "binary"),
        ("sqlserver", Native("float", 8, 53), "double"),
        ("sqlserver", Native("real", 7, 24), "float"),
        ("sqlserver", Native("bit", -7, 1), "boolean"),
        ("sqlserver", Native("tinyint", -6, 3), "int"),
        ("sqlserver", Native("geography", -158, 2147483647), "None"),
        # docs.oracle.com/en/database/oracle/oracle-database/23/jjdbc/accessing-and-manipulating-Oracle-data.html
        ("oracle", Native("NUMBER", 3, 10, 0), "bigint"),
        ("oracle", Native("NUMBER", 3, 9, 0), "int"),
        ("oracle", Native("NUMBER", 3, 12, 2), "decimal(12,2)"),
        ("oracle", Native("NUMBER", 3, 0, -127), "None"),
        ("oracle", Native("FLOAT", 6, 126), "double"),
        ("oracle", Native("DATE", 93, 7), "timestamp_ntz"),
        ("oracle", Native("TIMESTAMP(6)", 93, 11, 6), "timestamp_ntz"),
        ("oracle", Native("TIMESTAMP(6) WITH TIME ZONE", -101, 13, 6), "timestamp"),
        ("oracle", Native("TIMESTAMP(6) WITH LOCAL TIME ZONE", -102, 11, 6), "timestamp"),
        ("oracle", Native("INTERVAL DAY(2) TO SECOND(6)", -104, 2, 6), "string"),
        ("oracle", Native("VARCHAR2", 12, 20), "string"),
        ("oracle", Native("BINARY_DOUBLE", 101, 8), "double"),
        ("oracle", Native("RAW", -3, 16), "binary"),
        ("oracle", Native("BFILE", -13, 530), "None"),
        # any other database, by the codes of java.sql.Types
        (None, Native("DECFLOAT", 3, 34, 2), "decimal(34,2)"),
        (None, Native("DECIMAL", 3, 60, 2), "None"),
        (None, Native("SMALLINT", 5, 5), "int"),
        (None, Native("CHAR () FOR BIT DATA", -2, 16), "binary"),
        (None, Native("BIT", -7, 8), "None"),
        (None, Native("TIMESTAMP", 93, 26), "timestamp_ntz"),
        (None, Native("STRUCT", 2002), "None"),
    ],
)
def test_types_of_drivers_are_read_as_documented(database: str | None, native: Native, ours: str) -> None:
    assert str(type_of(database, native)) == ours
