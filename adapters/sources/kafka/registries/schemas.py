"""The writer schemas of messages: a registry that has them, and the folder that keeps those that were fetched."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, Protocol

from lakeward.core.errors import SourceError


class Framed(NamedTuple):
    """What bytes of a message say: the id of their schema, and how the bytes behind it are had.

    `body` raises ValueError where they are broken.
    """

    schema: str
    body: Callable[[], bytes]


class Registry(Protocol):
    """A registry of schemas, with the form of the bytes that name them. Ids have letters, digits and `-` alone."""

    @property
    def name(self) -> str:
        """What tells the registry from others, as the name of a folder."""
        ...

    def split(self, data: bytes) -> Framed | None:
        """Return the id of a schema, and the bytes behind it; None for bytes of another form."""
        ...

    def fetch(self, id_: str, where: str) -> str:
        """Return the text of a schema of Avro; `where` is the message that needs it.

        Raises SourceError where the registry has it not, or has one of another kind; StoreUnreachable where it does
        not answer, and ConfigError where it refuses who asks.
        """
        ...


@dataclass(frozen=True, slots=True)
class SchemaStore:
    """The schemas of a registry. Each is fetched once and kept as a file: what an id stands for never changes."""

    root: Path
    registry: Registry
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def find(self, id_: str, where: str) -> str:
        """Return the text of a schema, as `Registry.fetch` does."""
        file = self.root / self.registry.name / f"{id_}.avsc"
        with self._lock:
            try:
                return file.read_text("utf-8")
            except FileNotFoundError:
                found = self.registry.fetch(id_, where)
            try:
                self._keep(file, found)
            except OSError as error:
                raise SourceError(
                    f"the schema {id_} of {where} cannot be kept",
                    found=str(error),
                    todo="Nothing of this batch was applied. Make room, or grant permission to write there.",
                ) from error
            return found

    @staticmethod
    def _keep(file: Path, text: str) -> None:
        file.parent.mkdir(parents=True, exist_ok=True)
        part = file.with_name(f".{file.name}-{os.getpid()}.part")
        with part.open("w", encoding="utf-8") as written:
            written.write(text)
            written.flush()
            os.fsync(written.fileno())
        part.replace(file)
