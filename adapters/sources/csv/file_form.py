"""CSV files of another form than the declared one, recognised by their beginning.

Another encoding, compression or delimiter is a likelier cause than damage, so the error names it.
"""

from __future__ import annotations

from lakeward.adapters.sources.csv.parser import Dialect
from lakeward.adapters.sources.csv.samples import delimiter_of, rows_of
from lakeward.adapters.sources.landing.folder import Folder
from lakeward.core.dimension import TableName
from lakeward.core.errors import SchemaConflict, SourceError

_REST = "Nothing of this batch was applied; other tables go on."


def read_utf8_head(folder: Folder, table: TableName, name: str) -> str:
    """Return the beginning of a file of text; raises SourceError where it cannot be read, or is no UTF-8."""
    head = folder.head(table, name)
    _refuse_packed(table, name, head)
    if _is_other_encoding(head):
        raise encoding_error(table, name)
    return head


_GZIP = "\x1f\ufffd\x08"
"""The first bytes of a gzip file, decoded as UTF-8 with replacement characters."""


def _refuse_packed(table: TableName, name: str, head: str) -> None:
    if head.startswith(_GZIP):
        raise gzip_error(table, name)


def gzip_error(table: TableName, name: str) -> SourceError:
    """Return the error for a file that is packed by gzip although its name does not say so."""
    return SourceError(
        f"{table}: {name} is packed by gzip, and its name does not say so",
        found="it begins as such a file does",
        todo=f"{_REST} Call it {name}.gz, or deliver it unpacked.",
    )


def encoding_error(table: TableName, name: str) -> SourceError:
    """Return the error for a file whose text is in UTF-16 or UTF-32."""
    return SourceError(
        f"{table}: {name} is no UTF-8",
        found="it begins as text in UTF-16 or UTF-32 does",
        todo=f"{_REST} Write the file in UTF-8 (`iconv -f UTF-16 -t UTF-8`), or keep it back.",
    )


def _is_other_encoding(head: str) -> bool:
    """Return whether a text that was decoded as UTF-8 is UTF-16 or UTF-32.

    Their byte order mark is invalid UTF-8, and in texts of mostly ASCII at least every second byte is NUL.
    """
    return 4 * head.count("\0") > len(head) or head.startswith("\ufffd\ufffd")


def refuse_other_form(table: TableName, name: str, head: str, dialect: Dialect, width: int) -> None:
    """Refuse a file that is no UTF-8 or has another delimiter; rows have at least `width` fields.

    Raises SourceError for a text in UTF-16 or UTF-32 and for a file that gzip packed. Raises SchemaConflict if each
    row has one field with the declared delimiter, and at least `width` fields with another one.
    """
    _refuse_packed(table, name, head)
    if _is_other_encoding(head):
        raise encoding_error(table, name)
    other = delimiter_of([head])
    if width < 2 or other == dialect.delimiter or {len(row) for row in rows_of(head, dialect)} != {1}:
        return
    fields = min(len(row) for row in rows_of(head, Dialect(other, dialect.quote, dialect.null_text)))
    if fields >= width:
        raise SchemaConflict(
            f"{table}: {name} is written with another delimiter",
            found=f"its rows have one field by {dialect.delimiter!r}, and {fields} by {other!r}",
            todo=f"{_REST} Set `delimiter = {_toml(other)}` under [source], or keep the file back.",
        )


def _toml(delimiter: str) -> str:
    return '"\\t"' if delimiter == "\t" else f'"{delimiter}"'
