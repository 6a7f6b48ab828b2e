"""How a Hudi table is laid out, for good: each commit of ours says it, for most of it stands nowhere else.

A table that another job made keeps its own record key, and what else says where a row lies: `theirs`.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Final

from lakeward.adapters.formats.hudi.metadata.columns import KEY
from lakeward.adapters.formats.hudi.metadata.timeline import LAYOUT, Instant
from lakeward.adapters.formats.hudi.options import LASTING, TableOptions
from lakeward.adapters.formats.shared.rows.text_sets import TextSet
from lakeward.core.dimension import Dimension, Match
from lakeward.core.errors import TableError
from lakeward.core.ports import LayoutChange

if TYPE_CHECKING:
    from lakeward.adapters.formats.hudi.table import HudiTable

DELETED: Final = -1
"""The batch of a row that is sent to be deleted: no row that stands has it."""

RECORD_KEY: Final = "hoodie.datasource.write.recordkey.field"
GENERATOR: Final = "hoodie.datasource.write.keygenerator.class"
ENCODED: Final = "hoodie.datasource.write.partitionpath.urlencode"
INDEX: Final = "hoodie.index.type"
"""What a write is told of record keys, of paths, and of how a row is found."""

_OURS: Final = 1
_THEIRS: Final = 2
"""The forms of record keys; of another one, rows would be looked for in vain."""


def has_record_key(dimension: Dimension) -> bool:
    """Whether rows of a table that lakeward makes have a record key of ours, by which they are taken away."""
    return bool(dimension.key) or dimension.match is Match.IMAGE


@dataclass(frozen=True, slots=True)
class Layout:
    """How a table is laid out; `theirs` is what each write is told of one that another job made."""

    partition_by: Sequence[str]
    write_mode: str
    buckets: int
    theirs: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, options: TableOptions) -> Layout:
        """Return that of a table which is made with these options."""
        return cls(options.partition_by, options.write_mode, options.buckets)

    def record_key(self, dimension: Dimension) -> Sequence[str]:
        """Return the columns of the record key; none where Hudi makes one."""
        if self.theirs:
            return [name for name in self.theirs.get(RECORD_KEY, "").split(",") if name]
        return (KEY,) if has_record_key(dimension) else ()

    def place(self, dimension: Dimension) -> Sequence[str]:
        """Return the columns that say where a row lies, each once."""
        return list(dict.fromkeys((*self.record_key(dimension), *self.partition_by)))

    def mixed(self, dimension: Dimension) -> Mapping[str, TextSet]:
        """Return which texts Hudi would take for others in a table of another job, by their columns.

        A record key of several columns is `a:1,b:2`, with words for the empty text and NULL, and the bucket index
        reads it again; one of a single column must not be empty. A value in a path is not always encoded.
        """
        if not self.theirs:
            return {}
        types = {column.name: column.type.name for column in dimension.schema}
        found = {name: self._of_key() for name in self.record_key(dimension) if types.get(name) == "string"}
        if self.theirs[ENCODED] == "false":
            for name in self.partition_by:
                if types.get(name) == "string":
                    of_key = found.get(name, TextSet())
                    found[name] = replace(of_key, parts=("", ".", ".."), beginnings=(".hoodie",))
        return found

    def _of_key(self) -> TextSet:
        if self.theirs[INDEX] == "BUCKET":
            return TextSet(words=("", "__empty__", "__null__"), pairs=((",", ":"), (":", ",")))
        if self.theirs[GENERATOR].endswith("ComplexKeyGenerator") or "," in self.theirs[RECORD_KEY]:
            return TextSet(words=("__empty__", "__null__"), pairs=((",", ":"),))
        return TextSet(words=("",))

    def on(self, options: TableOptions) -> TableOptions:
        """Return options with what holds for good as it was when the table was made."""
        return options.model_copy(update={name: getattr(self, name) for name in LASTING})

    def to_json(self) -> str:
        """Return it as a commit says it."""
        said = {name: value for name, value in asdict(self).items() if value or name != "theirs"}
        return json.dumps({**said, "keys": _THEIRS if self.theirs else _OURS})


def layout_of(instants: Iterable[Instant], table: str) -> Layout | None:
    """Return how a table is laid out, or None where no commit of ours tells.

    Raises TableError where a newer lakeward made it, with record keys of another form.
    """
    layouts = (instant.said().get(LAYOUT) for instant in instants)
    found = next((json.loads(layout) for layout in layouts if layout is not None), None)
    if found is None:
        return None
    form = found.pop("keys")
    if form not in (_OURS, _THEIRS):
        raise TableError(
            f"{table}: another lakeward made the table",
            found=f"its record keys are of form {form}, and this one writes forms {_OURS} and {_THEIRS}",
            todo="Nothing was applied. Install that version of lakeward.",
        )
    return Layout(**found)


class HudiLayout:
    """What the settings of one table say of how it is made, and it has otherwise: none of it can change."""

    def __init__(self, table: HudiTable) -> None:
        self.table = table

    def differences(self) -> Sequence[LayoutChange]:
        """Return what a batch refuses as well; nothing where there is no table yet."""
        made, options = self.table.layout, self.table.options
        return [
            LayoutChange(
                option=name,
                before=_shown(getattr(made, name)),
                after=_shown(getattr(options, name)),
                refused="Where the rows of a Hudi table lie, and how, is said once, when it is made.",
                todo=f"Write {name} = {json.dumps(getattr(made, name))}. Or drop the table together with what "
                "stands beside it, to load it anew.",
            )
            for name in LASTING
            if getattr(made, name) != getattr(options, name)
        ]

    def change(self, changes: Sequence[LayoutChange]) -> None:
        """Change nothing: each change is refused."""


def _shown(value: object) -> str:
    return ", ".join(value) or "none" if isinstance(value, list) else str(value)
