"""The properties of a Hudi table from its file: the parts of its layout that never change.

They are those of hudi.apache.org/docs/configurations#TABLE_CONFIG, in the format of `java.util.Properties`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from lakeward.adapters.formats.hudi.metadata.timeline import METADATA
from lakeward.adapters.formats.shared.storage.folder import Folder
from lakeward.core.errors import TableError

_ESCAPED: Final = re.compile(r"\\(?:u([0-9a-fA-F]{4})|(.))")
_PLACES: Final = ("hoodie.properties", "hoodie.properties.backup")
"""The file, and its backup while Hudi rewrites it."""


def properties_of(table: Folder) -> Mapping[str, str]:
    """Return the properties of the table in a folder; none if there is no table."""
    folder = table.within(METADATA)
    for name in _PLACES:
        try:
            with folder.open(name) as opened:
                text = opened.read().decode("latin-1")
        except FileNotFoundError:
            continue
        except OSError as error:
            raise TableError(
                f"the properties of a Hudi table cannot be read: {folder}/{name}",
                found=error.strerror,
                todo="Nothing was changed. Mend that, and ask again.",
            ) from error
        return dict(_property(line) for line in text.splitlines() if line and not line.startswith("#"))
    return {}


def _property(line: str) -> tuple[str, str]:
    name, _, value = line.partition("=")
    return _unescaped(name), _unescaped(value)


def _unescaped(text: str) -> str:
    return _ESCAPED.sub(lambda escape: chr(int(escape[1], 16)) if escape[1] else escape[2], text)
