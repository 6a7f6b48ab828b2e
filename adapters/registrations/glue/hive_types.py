"""Column types of the Glue Data Catalog, which are those of Hive.

Source: docs.aws.amazon.com/athena/latest/ug/data-types.html. Hive has one type `timestamp`, without a zone.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from lakeward.core.errors import ConfigError
from lakeward.core.schema import Type

_OTHER_NAMES: Final[Mapping[str, str]] = {"timestamp_ntz": "timestamp"}
_FIELD: Final = re.compile(r"[\w.$ -]+")
"""Field names that Hive can read in a type, which is a text."""


def hive_type(type_: Type, column: str) -> str:
    """Return a type as Hive writes it, for a `column`; raises ConfigError for a field name that Hive cannot read.

    >>> from lakeward.core.schema import parse_type
    >>> hive_type(parse_type("struct<a: list<decimal(12,2)>, b: map<string, timestamp_ntz>>"), "x")
    'struct<a:array<decimal(12,2)>,b:map<string,timestamp>>'
    """
    match type_.name:
        case "decimal":
            return f"decimal({type_.precision},{type_.scale})"
        case "list":
            return f"array<{hive_type(type_.parts[0].type, column)}>"
        case "map":
            key, value = (hive_type(part.type, column) for part in type_.parts)
            return f"map<{key},{value}>"
        case "struct":
            return f"struct<{','.join(_field(part.name, part.type, column) for part in type_.parts)}>"
        case name:
            return _OTHER_NAMES.get(name, name)


def _field(name: str, type_: Type, column: str) -> str:
    if not _FIELD.fullmatch(name):
        raise ConfigError(
            f"the column {column!r} cannot be registered: the Glue Data Catalog cannot have the name of a field",
            found=f"the field is {name!r}; a type in Glue is a text, in which some characters separate fields",
            todo="Rename the field in the source or by a column rule.",
        )
    return f"{name}:{hive_type(type_, column)}"
