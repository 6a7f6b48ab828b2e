"""Tables in files of SQL, as the tools of the databases write them."""

from __future__ import annotations

import pytest

from lakeward.adapters.catalogues.ddl import tables
from lakeward.core.errors import ConfigError
from lakeward.core.settings.source_catalogue import SourceColumn, SourceTable

PG_DUMP = r"""
SET statement_timeout = 0;
SELECT pg_catalog.set_config('search_path', '', false);
CREATE TYPE shop.mood AS ENUM ('sad', 'ok');
CREATE TABLE shop.customer (
    id integer DEFAULT nextval('shop.customer_id_seq'::regclass) NOT NULL,
    "Full Name" character varying(40) COLLATE "C" DEFAULT 'a, b (c)'::character varying,
    net numeric(12,2), feel shop.mood, tags text[], "at" timestamp(3) without time zone DEFAULT now(),
    CONSTRAINT net_is_positive CHECK ((net > (0)::numeric))
)
WITH (fillfactor='70');
ALTER TABLE shop.customer OWNER TO shop;
COMMENT ON TABLE shop.customer IS 'who buys; and who doesn''t';
COMMENT ON COLUMN shop.customer.net IS 'without tax';
CREATE SEQUENCE shop.customer_id_seq START WITH 1;
ALTER TABLE ONLY shop.customer ALTER COLUMN id SET DEFAULT nextval('shop.customer_id_seq'::regclass);
ALTER TABLE ONLY shop.customer ADD CONSTRAINT customer_pkey PRIMARY KEY (id, "Full Name");
ALTER TABLE ONLY shop.customer ADD CONSTRAINT fk FOREIGN KEY (id) REFERENCES shop.other(id);
CREATE INDEX customer_net ON shop.customer USING btree (net);
CREATE VIEW shop.v AS SELECT id FROM shop.customer;
"""

MYSQLDUMP = """
/*!40101 SET @saved_cs_client = @@character_set_client */;
DROP TABLE IF EXISTS `orders`;
CREATE TABLE `orders` (
  `id` int(10) unsigned NOT NULL AUTO_INCREMENT COMMENT 'the number, as printed',
  `state` enum('new','a) b') CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT 'new',
  `total` decimal(10,2) unsigned DEFAULT 0.00,
  `doubled` decimal(10,2) GENERATED ALWAYS AS (`total` * 2) STORED,
  PRIMARY KEY (`id`),
  KEY `by_state` (`state`),
  CONSTRAINT `fk` FOREIGN KEY (`id`) REFERENCES `x` (`id`)
) ENGINE=InnoDB AUTO_INCREMENT=7 DEFAULT CHARSET=utf8mb4 COMMENT='what was bought';
"""

STUDIO = """
USE [shop]
GO
SET ANSI_NULLS ON
GO
CREATE TABLE [dbo].[orders](
    [id] [int] IDENTITY(1,1) NOT NULL,
    [name] [nvarchar](max) COLLATE Latin1_General_CI_AS NULL,
    [at] [datetime2](7) NOT NULL,
 CONSTRAINT [PK_orders] PRIMARY KEY CLUSTERED ([id] ASC) WITH (PAD_INDEX = OFF) ON [PRIMARY]
) ON [PRIMARY] TEXTIMAGE_ON [PRIMARY]
GO
ALTER TABLE [dbo].[orders] ADD  CONSTRAINT [DF_at]  DEFAULT (sysdatetime()) FOR [at]
GO
ALTER TABLE [dbo].[orders]  WITH CHECK ADD  CONSTRAINT [FK] FOREIGN KEY([id]) REFERENCES [dbo].[x] ([id])
GO
"""

METADATA = """
  CREATE TABLE "SHOP"."ORDERS"
   (    "ID" NUMBER(10,0) NOT NULL ENABLE,
        "NOTE" VARCHAR2(20 CHAR) DEFAULT 'x',
        big LONG,
        RAWS LONG RAW,
        "WHEN" TIMESTAMP (6) WITH TIME ZONE,
         CONSTRAINT "ORDERS_PK" PRIMARY KEY ("ID") USING INDEX PCTFREE 10 TABLESPACE "USERS" ENABLE
   ) SEGMENT CREATION IMMEDIATE PCTFREE 10 TABLESPACE "USERS"
/
   COMMENT ON TABLE "SHOP"."ORDERS" IS 'what was bought';
"""


def one(sql: str, database: str, schema: str | None = None) -> SourceTable:
    (found,) = tables(sql, database, schema, "shop.sql")
    return found


@pytest.mark.parametrize(
    ("sql", "database", "name", "key", "comment", "columns"),
    [
        (
            PG_DUMP,
            "postgresql",
            "shop.customer",
            ("id", "Full Name"),
            "who buys; and who doesn't",
            "id int, Full Name string, net decimal(12,2) 'without tax', feel None, tags string, at timestamp_ntz",
        ),
        (
            MYSQLDUMP,
            "mysql",
            "shop.orders",
            ("id",),
            "what was bought",
            "id bigint 'the number, as printed', state string, total decimal(10,2), doubled decimal(10,2)",
        ),
        (STUDIO, "sqlserver", "dbo.orders", ("id",), None, "id int, name string, at timestamp_ntz"),
        (
            METADATA,
            "oracle",
            "SHOP.ORDERS",
            ("ID",),
            "what was bought",
            "ID bigint, NOTE string, BIG string, RAWS binary, WHEN timestamp",
        ),
    ],
    ids=["a dump of PostgreSQL", "a dump of MySQL", "a script of Management Studio", "what Oracle says of itself"],
)
def test_a_file_tells_a_table(
    sql: str, database: str, name: str, key: tuple[str, ...], comment: str | None, columns: str
) -> None:
    found = one(sql, database, "shop" if database == "mysql" else None)
    assert (str(found.name), found.key, found.comment) == (name, key, comment)
    assert ", ".join(map(description, found.columns)) == columns


def description(column: SourceColumn) -> str:
    return f"{column.name} {column.type}" + (f" '{column.comment}'" if column.comment else "")


def test_types_are_kept_as_they_are_written() -> None:
    assert [column.written for column in one(PG_DUMP, "postgresql").columns][3:5] == ["shop.mood", "text[]"]


def test_names_without_quotes_are_folded_as_the_database_does() -> None:
    sql = 'CREATE TABLE Shop.Orders (Id int, "Kept" int, primary key (ID))'
    assert one(sql, "postgresql").names == ("id", "Kept")
    assert one(sql, "oracle").key == ("ID",)
    assert one(sql.replace('"', "`"), "mysql").names == ("Id", "Kept")


def test_a_table_without_a_schema_wants_one() -> None:
    with pytest.raises(ConfigError, match="schema") as raised:
        tables("CREATE TABLE orders (id int)", "postgresql", None, "shop.sql")
    assert "[catalogue]" in str(raised.value)


@pytest.mark.parametrize(
    "change",
    [
        *("ADD COLUMN note text", "ADD note text", "DROP COLUMN id", "RENAME COLUMN id TO key"),
        *("ALTER COLUMN id TYPE bigint", "ALTER COLUMN id SET DATA TYPE bigint"),
    ],
)
def test_a_history_of_changes_is_refused(change: str) -> None:
    with pytest.raises(ConfigError, match="changes the columns"):
        tables(f"CREATE TABLE shop.orders (id int); ALTER TABLE shop.orders {change};", "postgresql", None, "a.sql")


def test_what_is_no_sql_is_an_error() -> None:
    with pytest.raises(ConfigError, match="cannot be read"):
        tables("CREATE TABLE shop.orders (id int, name text DEFAULT 'never closed", "postgresql", None, "a.sql")


def test_an_empty_file_has_no_table() -> None:
    assert tables("-- nothing\n", "oracle", None, "a.sql") == []
