"""Writer schemas of messages: the port to a registry, and the folder that stores fetched schemas."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from lakeward.core.errors import SourceError


class Framed(NamedTuple):
    """The id of a message's schema, and a function that returns the bytes after it.

    `body` raises ValueError where they are broken. With `is_packed` they are compressed.
    """

    schema: str
    body: Callable[[], bytes]
    is_packed: bool = False


class Registry(Protocol):
    """A schema registry and its wire format. Ids have only letters, digits and `-`."""

    @property
    def name(self) -> str:
        """The name of the registry's folder, which no other registry has."""
        ...

    @property
    def head(self) -> int:
        """The number of bytes before the body of a message; they alone say what its schema is."""
        ...

    def split(self, data: bytes) -> Framed | None:
        """Return the id of a schema and the bytes after it, or None for bytes of another form."""
        ...

    def fetch(self, id_: str, message_label: str) -> str:
        """Return the text of an Avro schema; `message_label` names the message in errors.

        Raises SourceError where the registry does not have it, or has it in another format, StoreUnreachable where
        it does not answer, and ConfigError where it refuses access.
        """
        ...


@dataclass(frozen=True, slots=True)
class SchemaStore:
    """The schemas of a registry.

    Each is fetched once and stored as a file, because the schema of an id never changes.
    """

    root: Path
    registry: Registry
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def find(self, id_: str, message_label: str) -> str:
        """Return the text of a schema.

        Raises as `Registry.fetch` does, and SourceError where it cannot be stored.
        """
        file = self.root / self.registry.name / f"{id_}.avsc"
        with self._lock:
            try:
                return file.read_text("utf-8")
            except FileNotFoundError:
                schema = self.registry.fetch(id_, message_label)
            try:
                self._store(file, schema)
            except OSError as error:
                raise SourceError(
                    f"the schema {id_} of {message_label} cannot be stored",
                    found=str(error),
                    todo="Nothing of this batch was applied. Make room, or grant permission to write there.",
                ) from error
            return schema

    @staticmethod
    def _store(file: Path, text: str) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name(f".{file.name}-{os.getpid()}.part")
        with part.open("w", encoding="utf-8") as written:
            written.write(text)
            written.flush()
            os.fsync(written.fileno())
        part.replace(file)
