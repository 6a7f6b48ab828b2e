"""Positions of changes in database logs in Arrow, equal to `adapters.sources.messages.log_positions` in SQL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from lakeward.adapters.spark.frames.local_casts import SparkNeeded
from lakeward.core.checks.log_steps import FOLLOWS, OVERLAP
from lakeward.core.events import READ_SEQUENCE

Field: TypeAlias = Callable[[str], pa.Array]
"""Returns a field of the messages' sources as texts, by its name."""

_SPAN_DIGITS: Final = 19
_POSITION_DIGITS: Final = 16
_ROW_DIGITS: Final = 7
"""How many digits the lower part of a position has: an LSN or an SCN, the place in a binlog, a row of an event."""

_MOST_FILES: Final = 10
_NO_TEXT: Final = pa.scalar(None, pa.string())


def places_and_logs(field: Field, commit: pa.Array, is_read: pa.Array) -> tuple[pa.Array, pa.Array]:
    """Return the sequences of messages as texts of digits, and the logs of their positions.

    `commit` has the last commits before the changes, `is_read` says which messages are rows of a snapshot. The
    result is NULL for messages without a source. Raises SparkNeeded for messages of several connectors, and for
    positions of another form.
    """
    lsn, file, scn = field("lsn"), field("file"), field("scn")
    has_lsn, has_file, has_scn = lsn.is_valid(), _has_text(file), scn.is_valid()
    others = pc.any(field("commit_lsn").is_valid()).as_py()
    kinds = [pc.any(has).as_py() for has in (has_lsn, has_file, has_scn)]
    if others or sum(kinds) > 1:
        raise SparkNeeded("the positions of messages are of SQL Server, or of several databases")
    if kinds[0]:
        return _pairs(pc.coalesce(commit, lsn), lsn), _logs(has_lsn, pc.and_(has_lsn, commit.is_valid()))
    if kinds[1]:
        return _binlog_places(field, file, has_file), _binlogs(field, file, has_file)
    if kinds[2]:
        return _pairs(pc.coalesce(field("commit_scn"), scn), scn), _logs(has_scn, pa.scalar(False))
    return no_places(is_read), pa.nulls(len(lsn), pa.string())


def no_places(is_read: pa.Array) -> pa.Array:
    """Return the sequences of messages without a position: those of snapshot rows are below all changes."""
    return pc.if_else(is_read, str(READ_SEQUENCE), "0")


def _has_text(values: pa.Array) -> pa.Array:
    return pc.fill_null(pc.not_equal(values, ""), False)


def _pairs(high: pa.Array, low: pa.Array) -> pa.Array:
    """Return positions of two numbers, the lower of which has up to 19 digits."""
    return _joined(_digits(high, _SPAN_DIGITS), (_digits(low, _SPAN_DIGITS), _SPAN_DIGITS))


def _joined(high: pa.Array, *parts: tuple[pa.Array, int]) -> pa.Array:
    """Return numbers with the digits of `high` and of `parts`, each of which is padded to a number of digits."""
    columns = [pc.utf8_lpad(part, digits, "0") for part, digits in parts]
    return pc.binary_join_element_wise(high, *columns, "")


def _digits(values: pa.Array, most: int) -> pa.Array:
    """Return whole numbers as texts; raises SparkNeeded for other texts, and for more digits than `most`."""
    is_number = pc.and_(pc.ascii_is_decimal(values), pc.less_equal(pc.binary_length(values), most))
    is_number = pc.fill_null(is_number, True)
    if not pc.all(is_number).as_py():
        raise SparkNeeded("a position in the log is no whole number, or has too many digits")
    return values


def _logs(is_known: pa.Array, follows: pa.Array | pa.Scalar) -> pa.Array:
    """Return the logs of known positions. Transactions overlap, except where `follows` is true."""
    return pc.if_else(is_known, pc.if_else(follows, f"{FOLLOWS} ", f"{OVERLAP} "), _NO_TEXT)


def _binlog_places(field: Field, file: pa.Array, has_file: pa.Array) -> pa.Array:
    number = pc.struct_field(pc.extract_regex(file, rf"(?P<number>[0-9]{{1,{_MOST_FILES}}})$"), "number")
    position = field("pos")
    if pc.any(pc.and_(has_file, pc.or_(number.is_null(), position.is_null()))).as_py():
        raise SparkNeeded("a binlog has no number, or a message no position in it")
    row = _digits(pc.coalesce(field("row"), pa.scalar("0")), _ROW_DIGITS)
    parts = ((_digits(position, _POSITION_DIGITS), _POSITION_DIGITS), (row, _ROW_DIGITS))
    return pc.if_else(has_file, _joined(number, *parts), _NO_TEXT)


def _binlogs(field: Field, file: pa.Array, has_file: pa.Array) -> pa.Array:
    if not pc.all(pc.fill_null(pc.match_substring_regex(file, r"\A[ -~]*\z"), True)).as_py():
        raise SparkNeeded("the name of a binlog has a character other than those of ASCII")
    base, server = pc.replace_substring_regex(file, r"[0-9]+$", ""), pc.coalesce(field("server_id"), pa.scalar("0"))
    server = pc.if_else(pc.equal(server, "0"), "", server)
    return pc.if_else(has_file, pc.binary_join_element_wise(OVERLAP, base, " ", server, ""), _NO_TEXT)
