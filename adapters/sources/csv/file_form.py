"""Files of another form than is declared, known by their beginning: what they are is likelier than damage."""

from __future__ import annotations

from lakeward.adapters.sources.csv.parser import Dialect
from lakeward.adapters.sources.csv.samples import delimiter_of, rows_of
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.core.dimension import TableName
from lakeward.core.errors import SchemaConflict, SourceError

_REST = "Nothing of this batch was applied; other tables go on."


def head_in_utf_8(folder: Folder, table: TableName, name: str) -> str:
    """Return the beginning of a file of text; raises SourceError where it cannot be read, or is no UTF-8."""
    head = folder.head(table, name)
    _refuse_packed(table, name, head)
    if _is_no_utf_8(head):
        raise no_utf_8(table, name)
    return head


_GZIP = "\x1f\ufffd\x08"
"""How what gzip packed begins, as UTF-8 reads it."""


def _refuse_packed(table: TableName, name: str, head: str) -> None:
    if head.startswith(_GZIP):
        raise packed(table, name)


def packed(table: TableName, name: str) -> SourceError:
    """Say that a file is packed by gzip, though its name does not say so."""
    return SourceError(
        f"{table}: {name} is packed by gzip, and its name does not say so",
        found="it begins as such a file does",
        todo=f"{_REST} Call it {name}.gz, or deliver it unpacked.",
    )


def no_utf_8(table: TableName, name: str) -> SourceError:
    """Say that a file is text in UTF-16 or UTF-32."""
    return SourceError(
        f"{table}: {name} is no UTF-8",
        found="it begins as text in UTF-16 or UTF-32 does",
        todo=f"{_REST} Write the file in UTF-8 (`iconv -f UTF-16 -t UTF-8`), or keep it back.",
    )


def _is_no_utf_8(head: str) -> bool:
    """Whether a text, as UTF-8 reads it, is one of UTF-16 or UTF-32: its mark is no UTF-8, half of it is NUL."""
    return 4 * head.count("\0") > len(head) or head.startswith("\ufffd\ufffd")


def refuse_other_form(table: TableName, name: str, head: str, dialect: Dialect, width: int) -> None:
    """Refuse a file that is no UTF-8 or has another delimiter; rows have `width` fields at the least.

    Raises SourceError for text in UTF-16 or UTF-32 and for what gzip packed, and SchemaConflict where rows have one
    field by the delimiter that is declared, and as many as they should by another.
    """
    _refuse_packed(table, name, head)
    if _is_no_utf_8(head):
        raise no_utf_8(table, name)
    other = delimiter_of([head])
    if width < 2 or other == dialect.delimiter or {len(row) for row in rows_of(head, dialect)} != {1}:
        return
    found = min(len(row) for row in rows_of(head, Dialect(other, dialect.quote, dialect.null_text)))
    if found >= width:
        raise SchemaConflict(
            f"{table}: {name} is written with another delimiter",
            found=f"its rows have one field by {dialect.delimiter!r}, and {found} by {other!r}",
            todo=f"{_REST} Set `delimiter = {_toml(other)}` under [source], or keep the file back.",
        )


def _toml(delimiter: str) -> str:
    return '"\\t"' if delimiter == "\t" else f'"{delimiter}"'
