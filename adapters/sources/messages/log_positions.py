"""Positions of changes in the log of their database, from Debezium's fields, as one number in the order of the log.

debezium.io/documentation/reference/stable/connectors/: PostgreSQL has the LSN of the last commit and that of the
change (`source.sequence`, `source.lsn`); MySQL and MariaDB the file of the binlog, the position in it and the row;
SQL Server the LSN of the commit; Oracle the SCNs of commit and change; MongoDB the time of its cluster and the
order within a second. Changes with the same position are ordered by arrival, which is the order in their
transaction.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lakeward.adapters.sources.messages.json.wire_format import number
from lakeward.adapters.sources.messages.mongodb import PLACE
from lakeward.adapters.spark.sql.names import text
from lakeward.core.checks.log_steps import FOLLOWS, OVERLAP
from lakeward.core.events import READ_SEQUENCE

_SPAN: Final = "10000000000000000000BD"  # ten to the nineteenth: an LSN and an SCN have no more digits
_POSITIONS: Final = "10000000000000000BD"
_ROWS: Final = "10000000BD"


def last_commit(field: Callable[[str], str]) -> str:
    """Return the LSN of the last commit before a change, from the field `sequence` of PostgreSQL, as SQL."""
    return f"get(from_json({field('sequence')}, 'array<string>'), 0)"


def sequence(field: Callable[[str], str], is_read: str, commit: str) -> str:
    """Return the sequence of a message as a text, as SQL; `field` returns a field of its source, as SQL.

    Without a known field it is that of `no_place`. If a field holds no valid position, it is the field with its
    name. `commit` is the `last_commit`, `is_read` whether the message is a row of a snapshot.
    """
    return (
        f"CASE WHEN {field('lsn')} IS NOT NULL THEN {_place_or_field(_postgresql(field, commit), 'lsn', field)} "
        f"WHEN {field('file')} != '' THEN {_place_or_field(_mysql(field), 'file', field)} "
        f"WHEN {field('commit_lsn')} IS NOT NULL THEN {_place_or_field(_sql_server(field), 'commit_lsn', field)} "
        f"WHEN {field('scn')} IS NOT NULL THEN {_place_or_field(_oracle(field), 'scn', field)} "
        f"ELSE {no_place(is_read)} END"
    )


def sequence_of_mongodb(field: Callable[[str], str], is_read: str) -> str:
    """Return the sequence of a rewritten message of MongoDB's connector, as `sequence` does."""
    place = _place_or_field(number(field(PLACE)), PLACE, field)
    return f"CASE WHEN {field(PLACE)} IS NOT NULL THEN {place} ELSE {no_place(is_read)} END"


def _place_or_field(place: str, name: str, field: Callable[[str], str]) -> str:
    """Return a position as a text, as SQL; if it is NULL, the field that should hold it, with its name."""
    return f"coalesce(string({place}), concat('{name}: ', {field(name)}))"


def no_place(is_read: str) -> str:
    """Return the sequence of a message without a position, as SQL: that of a snapshot row is below all changes."""
    return f"CASE WHEN {is_read} THEN '{READ_SEQUENCE}' ELSE '0' END"


def _pair(high: str, low: str, span: str = _SPAN) -> str:
    return f"try_add(try_multiply({high}, {span}), {low})"


def _postgresql(field: Callable[[str], str], commit: str) -> str:
    """Return the position by LSNs; before the first commit after a snapshot the last commit is not known."""
    lsn = number(field("lsn"))
    return _pair(f"coalesce({number(commit)}, {lsn})", lsn)


def _mysql(field: Callable[[str], str]) -> str:
    file = f"regexp_extract({field('file')}, '([0-9]{{1,10}})$', 1)"
    row = f"coalesce({number(field('row'))}, 0BD)"
    return _pair(_pair(number(file), number(field("pos")), _POSITIONS), row, _ROWS)


def _sql_server(field: Callable[[str], str]) -> str:
    """Return the position by an LSN such as `0000002b:00000d08:0003`: file, block and slot in hexadecimal."""
    digits = f"replace({field('commit_lsn')}, ':', '')"
    high, low = (f"CAST(conv(substring({digits}, {at}, {count}), 16, 10) AS decimal(38,0))" for at, count in _HEX)
    return f"CASE WHEN {digits} RLIKE '^[0-9a-fA-F]{{20}}$' THEN {_pair(high, low, '1099511627776BD')} END"


_HEX: Final = ((1, 10), (11, 10))


def _oracle(field: Callable[[str], str]) -> str:
    return _pair(f"coalesce({number(field('commit_scn'))}, {number(field('scn'))})", number(field("scn")))


def log(field: Callable[[str], str], commit: str) -> str:
    """Return the log of a change's position, as `core.checks.log_steps.LogName` reads it, as SQL.

    `commit` is the `last_commit`. A binlog has a base name and a server. Transactions overlap if a message has the
    time of the change and the position of its commit (MySQL, MariaDB, Oracle), or no position of the commit (an LSN
    alone). With an LSN and the last commit, transactions follow each other.
    """
    base = f"regexp_replace({field('file')}, '[0-9]+$', '')"
    server = f"CASE WHEN {field('server_id')} NOT IN ('', '0') THEN {field('server_id')} END"
    is_binlog = f"{field('file')} != '' AND {field('lsn')} IS NULL"
    overlap = f"({field('lsn')} IS NOT NULL AND {number(commit)} IS NULL) OR {field('scn')} IS NOT NULL"
    return (
        f"CASE WHEN {is_binlog} THEN concat({text(OVERLAP)}, {base}, ' ', coalesce({server}, '')) "
        f"WHEN {overlap} THEN {text(OVERLAP + ' ')} WHEN {field('lsn')} IS NOT NULL THEN {text(FOLLOWS + ' ')} END"
    )
