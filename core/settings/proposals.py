"""What may be proposed from a sample of texts, for a person to confirm.

A proposal must not lose data: each text of the sample must come back from the value it
becomes as it was written, or it stays a text. `007` is no number, and `+5` is none.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from lakeward.core.dimension import TableName
from lakeward.core.schema import Type
from lakeward.core.text.values import MISFIT, from_text

TEXT: Final = Type("string")
DECIMAL_DIGITS: Final = 38
"""A decimal is proposed with all digits that there are: the sample need not have the greatest number."""

_WHOLE: Final = re.compile(r"-?(0|[1-9]\d*)", re.ASCII)
_DECIMAL: Final = re.compile(r"-?(0|[1-9]\d*)\.(\d+)", re.ASCII)
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_TIME: Final = re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}(\.\d{1,6})?", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedColumn:
    """A column that files have; without a type, the files have types themselves."""

    name: str
    type: Type | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ProposedTable:
    """A table that files are of: how it was found, its columns, and its key if a name suggests one.

    `doubts` are what a person must look at before anything is run; `has_names` says that the
    names of the columns are those of the files. `source` is what the source must be told of it.
    """

    name: TableName
    found: str
    columns: tuple[ProposedColumn, ...] = ()
    key: tuple[str, ...] = ()
    has_names: bool = True
    doubts: tuple[str, ...] = ()
    source: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Proposal:
    """What a source of some kind would make of a folder: its settings beside `kind`, and the tables.

    `reasons` say, by key, why a setting is proposed. With `is_named` files have names that only that
    source gives; such a proposal counts more than one that would take any files.
    """

    kind: str
    tables: Sequence[ProposedTable]
    settings: Mapping[str, str] = field(default_factory=dict)
    reasons: Mapping[str, str] = field(default_factory=dict)
    is_named: bool = True


def proposed_type(texts: Collection[str | None]) -> Type:
    """Return the narrowest type of which each text is a value that it comes back from; NULL fits any.

    >>> str(proposed_type(["1", "-20", None])), str(proposed_type(["007"])), str(proposed_type([None]))
    ('bigint', 'string', 'string')
    >>> str(proposed_type(["1.50", "2.125"])), str(proposed_type(["2026-11-21"])), str(proposed_type(["1.5", "x"]))
    ('decimal(38,3)', 'date', 'string')
    """
    known = [text for text in texts if text is not None]
    if not known:
        return TEXT
    if all(text in ("true", "false") for text in known):
        return Type("boolean")
    if all(_WHOLE.fullmatch(text) and text != "-0" for text in known):
        return _fits(known, Type("bigint")) or _fits(known, Type("decimal", DECIMAL_DIGITS, 0)) or TEXT
    if all(_WHOLE.fullmatch(text) or _DECIMAL.fullmatch(text) for text in known):
        return _decimal(known)
    for pattern, type_ in ((_DATE, Type("date")), (_TIME, Type("timestamp_ntz"))):
        if all(pattern.fullmatch(text) for text in known):
            return _fits(known, type_) or TEXT
    return TEXT


def _decimal(texts: Sequence[str]) -> Type:
    scale = max(len(text.partition(".")[2]) for text in texts)
    return _fits(texts, Type("decimal", DECIMAL_DIGITS, scale)) or TEXT if scale <= DECIMAL_DIGITS else TEXT


def _fits(texts: Sequence[str], type_: Type) -> Type | None:
    return None if any(from_text(text, type_) is MISFIT for text in texts) else type_


def proposed_key(table: str, columns: Sequence[str], rows: Sequence[Sequence[str | None]]) -> tuple[str, ...]:
    """Return the column whose name says that it is the key, where no value of the sample contradicts.

    >>> proposed_key("customers", ["name", "customer_id"], [("Ann", "1"), ("Bob", "2")])
    ('customer_id',)
    >>> proposed_key("customers", ["id"], [("1",), ("1",)]), proposed_key("customers", ["id"], [])
    ((), ())
    """
    stem = table.lower()
    stems = {stem, stem.removesuffix("s"), stem.removesuffix("es")}
    wanted = ["id", *sorted(f"{one}{tail}" for one in stems for tail in ("_id", "id", "_key", "_no"))]
    found = {name.lower(): place for place, name in enumerate(columns)}
    places = [found[name] for name in wanted if name in found]
    return next(((columns[place],) for place in places if _is_unique([row[place] for row in rows])), ())


def _is_unique(values: Sequence[str | None]) -> bool:
    return bool(values) and None not in values and "" not in values and len({*values}) == len(values)
