"""The layout of a Hudi table, which never changes.

Each commit of ours has it, since Hudi does not store most of it. A table that another job created keeps its own
record key and placement of rows: `theirs`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Final

from lakeward.adapters.formats.hudi.metadata.columns import KEY
from lakeward.adapters.formats.hudi.metadata.timeline import LAYOUT, Instant
from lakeward.adapters.formats.hudi.options import LASTING, TableOptions
from lakeward.adapters.formats.shared.options.option_text import option_text
from lakeward.adapters.formats.shared.rows.text_sets import TextSet
from lakeward.core.dimension import Dimension, Match
from lakeward.core.errors import TableError
from lakeward.core.ports import LayoutChange

if TYPE_CHECKING:
    from lakeward.adapters.formats.hudi.table import HudiTable

DELETED: Final = -1
"""The batch of a row that is sent to be deleted; no stored row has it."""

RECORD_KEY: Final = "hoodie.datasource.write.recordkey.field"
GENERATOR: Final = "hoodie.datasource.write.keygenerator.class"
ENCODED: Final = "hoodie.datasource.write.partitionpath.urlencode"
INDEX: Final = "hoodie.index.type"
"""Write options for record keys, paths, and the index."""

_OWN_KEYS: Final = 1
_EXTERNAL_KEYS: Final = 2
"""The forms of record keys. With an unknown form, rows would not be found."""


def has_record_key(dimension: Dimension) -> bool:
    """Return whether rows of a table that lakeward creates have a record key, by which they can be removed."""
    return bool(dimension.key) or dimension.match is Match.IMAGE


@dataclass(frozen=True, slots=True)
class Layout:
    """The layout of a table. `theirs` are the write options of a table that another job created."""

    partition_by: Sequence[str]
    write_mode: str
    buckets: int
    theirs: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, options: TableOptions) -> Layout:
        """Return the layout of a table that is created with these options."""
        return cls(options.partition_by, options.write_mode, options.buckets)

    def record_key(self, dimension: Dimension) -> Sequence[str]:
        """Return the columns of the record key; none if Hudi generates it."""
        if self.theirs:
            return [name for name in self.theirs.get(RECORD_KEY, "").split(",") if name]
        return (KEY,) if has_record_key(dimension) else ()

    def place(self, dimension: Dimension) -> Sequence[str]:
        """Return the columns that decide where a row is stored, each once."""
        return list(dict.fromkeys((*self.record_key(dimension), *self.partition_by)))

    def ambiguous_texts(self, dimension: Dimension) -> Mapping[str, TextSet]:
        """Return which texts Hudi would take for others in a table of another job, by column.

        A record key of several columns is `a:1,b:2`, with placeholders for the empty text and NULL, and the bucket
        index parses it. A record key of one column must not be empty. Values in paths are not always encoded.
        """
        if not self.theirs:
            return {}
        types = {column.name: column.type.name for column in dimension.schema}
        texts = {
            name: self._reserved_key_texts() for name in self.record_key(dimension) if types.get(name) == "string"
        }
        if self.theirs[ENCODED] == "false":
            for name in self.partition_by:
                if types.get(name) == "string":
                    of_key = texts.get(name, TextSet())
                    texts[name] = replace(of_key, parts=("", ".", ".."), beginnings=(".hoodie",))
        return texts

    def _reserved_key_texts(self) -> TextSet:
        if self.theirs[INDEX] == "BUCKET":
            return TextSet(words=("", "__empty__", "__null__"), pairs=((",", ":"), (":", ",")))
        if self.theirs[GENERATOR].endswith("ComplexKeyGenerator") or "," in self.theirs[RECORD_KEY]:
            return TextSet(words=("__empty__", "__null__"), pairs=((",", ":"),))
        return TextSet(words=("",))

    def on(self, options: TableOptions) -> TableOptions:
        """Return options with the lasting ones as of when the table was created."""
        return options.model_copy(update={name: getattr(self, name) for name in LASTING})

    def to_json(self) -> str:
        """Return it as JSON for a commit."""
        properties = {name: value for name, value in asdict(self).items() if value or name != "theirs"}
        return json.dumps({**properties, "keys": _EXTERNAL_KEYS if self.theirs else _OWN_KEYS})


def layout_of(instants: Iterable[Instant], table: str) -> Layout | None:
    """Return the layout of a table, or None if no commit of ours has it.

    Raises TableError if a newer lakeward created the table, with another form of record keys.
    """
    layouts = (instant.extra_metadata().get(LAYOUT) for instant in instants)
    properties = next((json.loads(layout) for layout in layouts if layout is not None), None)
    if properties is None:
        return None
    form = properties.pop("keys")
    if form not in (_OWN_KEYS, _EXTERNAL_KEYS):
        raise TableError(
            f"{table}: another lakeward made the table",
            found=f"its record keys are of form {form}, and this one writes forms {_OWN_KEYS} and {_EXTERNAL_KEYS}",
            todo="Nothing was applied. Install that version of lakeward.",
        )
    return Layout(**properties)


class HudiLayout:
    """The options of one table that differ from its settings; none of them can change."""

    def __init__(self, table: HudiTable) -> None:
        self.table = table

    def differences(self) -> Sequence[LayoutChange]:
        """Return the differences, which a batch refuses as well; none if there is no table yet."""
        layout, options = self.table.layout, self.table.options
        return [
            LayoutChange(
                option=name,
                before=option_text(getattr(layout, name)),
                after=option_text(getattr(options, name)),
                refused="Where the rows of a Hudi table lie, and how, is said once, when it is made.",
                todo=f"Write {name} = {json.dumps(getattr(layout, name))}. Or drop the table and its side "
                "tables to load it anew.",
            )
            for name in LASTING
            if getattr(layout, name) != getattr(options, name)
        ]

    def change(self, changes: Sequence[LayoutChange]) -> None:
        """Do nothing: every change is refused."""
