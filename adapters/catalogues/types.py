"""Map the types of databases to lakeward's, with one table of names for each; see `docs/reference/catalogue.md`.

A name that is not in the table has no type here, nor has a number that does not fit into a decimal: the settings
must define such a column. The tables follow what DMS writes of such values as text
(docs.aws.amazon.com/dms/latest/userguide/CHAP_Source.html).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final, TypeAlias

from lakeward.core.schema import Type, parse_type

MOST_DIGITS: Final = 38


@dataclass(frozen=True, slots=True)
class Written:
    """A type in the words of a database: its name in lower case, and the numbers in its brackets."""

    name: str
    numbers: tuple[int, ...] = ()


Rule: TypeAlias = str | Callable[[Sequence[int]], Type | None]
Types: TypeAlias = Mapping[str, Rule]


def decimal(precision: int, scale: int) -> Type | None:
    """Return the decimal for numbers of `precision` digits, `scale` of them after the point; None if too large.

    A negative scale means numbers that end in zeros, a scale above the precision small fractions.

    >>> str(decimal(5, -2)), str(decimal(2, 4)), decimal(39, 0)
    ('decimal(7,0)', 'decimal(4,4)', None)
    """
    digits = max(precision - min(scale, 0), scale)
    return Type("decimal", digits, max(scale, 0)) if 1 <= digits <= MOST_DIGITS else None


def _numbers(default: tuple[int, int] | None) -> Rule:
    """Return the rule for `(precision, scale)`.

    Without brackets the default of the database applies, if it has one.
    """

    def rule(numbers: Sequence[int]) -> Type | None:
        if not numbers:
            return None if default is None else decimal(*default)
        return decimal(numbers[0], numbers[1] if len(numbers) > 1 else 0)

    return rule


def _oracle_number(numbers: Sequence[int]) -> Type | None:
    if len(numbers) == 1 or (len(numbers) == 2 and numbers[1] == 0):
        digits = numbers[0]
        return Type("int") if digits <= 9 else Type("bigint") if digits <= 18 else decimal(digits, 0)
    return decimal(*numbers) if len(numbers) == 2 else None


def _one_bit(numbers: Sequence[int]) -> Type | None:
    return Type("boolean") if tuple(numbers) in ((), (1,)) else None


def _invert(**names: str) -> dict[str, Rule]:
    """Return the mapping from type names of a database to lakeward's types.

    `names` has the reverse, with names of the database separated by commas.
    """
    return {word: ours for ours, words in names.items() for word in words.split(", ")}


POSTGRESQL: Final[Types] = {
    **_invert(
        boolean="boolean, bool",
        int="smallint, int2, smallserial, serial2, integer, int, int4, serial, serial4",
        bigint="bigint, int8, bigserial, serial8, oid",
        float="real, float4",
        double="double precision, float8, float",
        date="date",
        timestamp="timestamptz, timestamp with time zone",
        timestamp_ntz="timestamp, timestamp without time zone",
        binary="bytea",
        string="character varying, varchar, character, char, bpchar, text, citext, name, uuid, json, jsonb, xml, "
        "money, time, time without time zone, timetz, time with time zone, interval, bit, bit varying, varbit, "
        "inet, cidr, macaddr, macaddr8, tsvector, tsquery, hstore, point, line, lseg, box, path, polygon, circle, "
        "int4range, int8range, numrange, tsrange, tstzrange, daterange",
    ),
    "numeric": _numbers(None),
    "decimal": _numbers(None),
}
"""PostgreSQL (postgresql.org/docs/current/datatype.html); arrays of any type are texts."""

MARIADB: Final[Types] = {
    **_invert(
        int="tinyint, tinyint unsigned, bool, boolean, smallint, smallint unsigned, mediumint, "
        "mediumint unsigned, int, integer, year",
        bigint="int unsigned, integer unsigned, bigint",
        double="float, float unsigned, double, double unsigned, double precision, real",
        date="date",
        timestamp="timestamp",
        timestamp_ntz="datetime",
        binary="binary, varbinary, tinyblob, blob, mediumblob, longblob",
        string="char, varchar, tinytext, text, mediumtext, longtext, enum, set, json, time, uuid, inet4, inet6",
    ),
    "bit": _one_bit,
    "serial": lambda _: decimal(20, 0),
    "bigint unsigned": lambda _: decimal(20, 0),
    **dict.fromkeys(
        ("decimal", "decimal unsigned", "numeric", "numeric unsigned", "dec", "fixed"), _numbers((10, 0))
    ),
}
"""MySQL and MariaDB (mariadb.com/kb/en/data-types/)."""

SQLSERVER: Final[Types] = {
    **_invert(
        boolean="bit",
        int="tinyint, smallint, int, integer",
        bigint="bigint",
        float="real",
        double="float, double precision",
        date="date",
        timestamp="datetimeoffset",
        timestamp_ntz="datetime, datetime2, smalldatetime",
        binary="binary, varbinary, image, rowversion, timestamp",
        string="char, character, varchar, nchar, nvarchar, text, ntext, sysname, xml, uniqueidentifier, time, "
        "sql_variant, hierarchyid",
    ),
    "money": "decimal(19,4)",
    "smallmoney": "decimal(10,4)",
    **dict.fromkeys(("decimal", "numeric", "dec"), _numbers((18, 0))),
}
"""SQL Server (learn.microsoft.com/sql/t-sql/data-types/data-types-transact-sql)."""

ORACLE: Final[Types] = {
    **_invert(
        boolean="boolean",
        float="binary_float",
        double="float, binary_double, double precision, real",
        timestamp="timestamp with time zone, timestamp with local time zone",
        timestamp_ntz="date, timestamp",
        binary="raw, long raw, blob",
        string="char, nchar, varchar, varchar2, nvarchar2, character, clob, nclob, long, rowid, urowid, xmltype, "
        "json, interval year to month, interval day to second",
    ),
    "number": _oracle_number,
    **dict.fromkeys(("numeric", "decimal", "dec"), _numbers(None)),
    **dict.fromkeys(("integer", "int", "smallint"), "decimal(38,0)"),
}
"""Oracle (docs.oracle.com/en/database/oracle/oracle-database/23/sqlrf/Data-Types.html)."""

DATABASES: Final[Mapping[str, Types]] = MappingProxyType(
    {"postgresql": POSTGRESQL, "mariadb": MARIADB, "mysql": MARIADB, "sqlserver": SQLSERVER, "oracle": ORACLE}
)


def our_type(database: str | None, written: Written) -> Type | None:
    """Return lakeward's type for a type of a database, or None if there is none."""
    types = DATABASES.get(database or "", {})
    if database == "postgresql" and ("[" in written.name or written.name.startswith("interval ")):
        return Type("string")
    rule = types.get(written.name)
    return parse_type(rule) if isinstance(rule, str) else None if rule is None else rule(written.numbers)


_SPACES: Final = re.compile(r"\s+")
_BRACKETS: Final = re.compile(r"\(([^()]*)\)")


def written(text: str) -> Written:
    """Parse a type.

    >>> written("NUMERIC (12, 2)"), written("timestamp(6) with time zone").name, written("varchar2(20 char)")
    (Written(name='numeric', numbers=(12, 2)), 'timestamp with time zone', Written(name='varchar2', numbers=(20,)))
    >>> written("number(*,0)"), written("interval year(2) to month").name
    (Written(name='number', numbers=(38, 0)), 'interval year to month')
    """
    brackets = _BRACKETS.search(text)
    numbers = re.findall(r"-?\d+|\*", brackets[1]) if brackets else []
    name = _SPACES.sub(" ", _BRACKETS.sub(" ", text)).strip().lower()
    name = " ".join(word for word in name.split(" ") if word not in _WITHOUT_EFFECT)
    return Written(name, tuple(MOST_DIGITS if item == "*" else int(item) for item in numbers))


_WITHOUT_EFFECT: Final = ("zerofill", "signed")
"""Words of a type that do not change its values."""
