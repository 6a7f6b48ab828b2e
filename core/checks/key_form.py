"""Check that the values of a key are read in the same form while a table has rows."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from lakeward.core.dimension import Dimension
from lakeward.core.errors import SchemaConflict
from lakeward.core.progress import Progress

_AS_IT_IS: Final = "as it is written"
_WRITTEN_AS: Final = " written as "
_NONE: Final[Mapping[str, str]] = MappingProxyType({})


def key_form(
    dimension: Dimension,
    formats: Mapping[str, str],
    source_zone: str = "",
    ways: Mapping[str, str] = _NONE,
    *,
    is_trimmed: bool = False,
) -> str | None:
    """Return in words which settings change the values that are read of a key; "" where none does.

    `formats` are formats by column. `ways` say how messages write columns without a format, for types that can be
    written in several ways. Times without a zone are read in the `source_zone`. With `is_trimmed` texts lose the
    blanks at their end. Returns None where the settings do not have the types of the key, and where each load
    replaces all rows.

    >>> from lakeward.core.dimension import TableName
    >>> from lakeward.core.schema import Column, Schema, Type
    >>> key = Schema((Column("at", Type("timestamp")), Column("code", Type("string"))))
    >>> orders = Dimension(name=TableName("shop", "orders"), schema=key, key=("at", "code"))
    >>> key_form(orders, {"at": "dd/MM/yyyy"}, "UTC", is_trimmed=True)
    "column 1 in the format 'dd/MM/yyyy', times in UTC, texts without blanks at their end"
    """
    columns = [dimension.schema.find(name) for name in dimension.key]
    types = {column.type.name for column in columns if column is not None}
    if dimension.snapshots is not None or None in columns:
        return None
    numbered = [*enumerate(dimension.key, 1)]
    parts = [f"column {number} in the format {formats[name]!r}" for number, name in numbered if name in formats]
    parts += [f"column {number}{_WRITTEN_AS}{ways[name]}" for number, name in numbered if name in ways]
    parts += [f"times in {source_zone}"] if "timestamp" in types and source_zone else []
    parts += ["texts without blanks at their end"] if "string" in types and is_trimmed else []
    return ", ".join(parts)


def refuse_other_key_form(dimension: Dimension, progress: Progress, current: str | None) -> None:
    """Raise SchemaConflict where a key is read in another form: changes would not find the stored rows."""
    stored_form = progress.key_form
    if (
        stored_form is not None and current is not None and _WRITTEN_AS not in stored_form
    ):  # earlier versions stored it so
        current = ", ".join(part for part in current.split(", ") if _WRITTEN_AS not in part)
    if stored_form is None or current is None or stored_form == current:
        return
    raise SchemaConflict(
        f"{dimension.name}: the values of its key cannot be read in another way",
        found=f"the key of the table was read {_describe(stored_form)}; the settings say {_describe(current)}",
        todo="Nothing of the table was applied; other tables go on. Set back whichever of `format`, "
        "`source_zone`, `trim_padding`, `decimals`, `times` and `binary` was changed; or load the table anew: "
        "`lakeward reload` where it has full loads, else drop it and its side tables "
        "(docs/how-to/reload.md#dropping-a-table).",
    )


def _describe(form: str) -> str:
    return f"with {form}" if form else _AS_IT_IS
