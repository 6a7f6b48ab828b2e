"""The form of the files of messages that a source stages, for the reader in Arrow columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol

from lakeward.adapters.sources.files.file_columns import File
from lakeward.adapters.sources.files.local.message_columns.line_parts import line_parts
from lakeward.adapters.sources.files.local.message_columns.reader import Part
from lakeward.adapters.sources.files.table_files import TableFiles
from lakeward.adapters.sources.messages.connect_schema import Version


class LinesNeeded(Exception):
    """Files cannot be read by their form; the text says why.

    The source that staged them must make lines of their messages, and let each of these be read for its schema.
    """


class MessageForm(Protocol):
    """The form of staged files: how messages and their schemas are read."""

    def are_lines(self, table: TableFiles, files: Sequence[File]) -> bool:
        """Return whether all files are of lines, which Spark and plain Python can read."""
        ...

    def versions(self, table: TableFiles, files: Sequence[File]) -> Mapping[str, Sequence[Version]] | None:
        """Return the schemas of messages by the path of their file below the landing folder.

        All describe the same columns. None if each message must be read for its schema. Raises LinesNeeded for such
        messages in files that are not of lines.
        """
        ...

    def reading_schemas(self) -> MessageForm:
        """Return a form of the same files that reads the schema of each message."""
        ...

    def described(self, table: TableFiles, files: Sequence[File]) -> TableFiles | None:
        """Return a table that reads the messages without the schemas in them, by which its cells are written.

        None if the messages have no schemas, or must be read with them.
        """
        ...

    def parts(self, table: TableFiles, file: File) -> Iterator[Part]:
        """Yield the parts of a file; raises SparkNeeded if it cannot be read to its end."""
        ...


class Lines:
    """The form of files of lines whose schemas, if they have any, are read with each message."""

    def are_lines(self, table: TableFiles, files: Sequence[File]) -> bool:
        """Return True."""
        return True

    def versions(self, table: TableFiles, files: Sequence[File]) -> Mapping[str, Sequence[Version]] | None:
        """Return None."""
        return None

    def reading_schemas(self) -> Lines:
        """Return itself."""
        return self

    def described(self, table: TableFiles, files: Sequence[File]) -> TableFiles | None:
        """Return None."""
        return None

    def parts(self, table: TableFiles, file: File) -> Iterator[Part]:
        """Yield the parts of a file of lines."""
        return line_parts(table, file)
