"""Taking over a table that another engine wrote: it is looked at whole, and then goes on where that one stopped.

Its rows stay as they are. To every change they are what a full load would have brought: older than all of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from lakeward.core.checks.batch_checks import refuse_names_alike
from lakeward.core.dimension import Match
from lakeward.core.errors import ConfigError, TableError
from lakeward.core.ledger.objects import SourceObject, digest_of
from lakeward.core.ledger.selection import ObjectHistory
from lakeward.core.merge.facts import BatchFacts, ObjectFacts
from lakeward.core.pipeline.job import Job
from lakeward.core.plan import MergePlan
from lakeward.core.ports import Adoption, Commit, ExternalTable
from lakeward.core.progress import Progress
from lakeward.core.schema_changes.evolution import Evolution, evolve
from lakeward.core.text.numbers import format_count

F = TypeVar("F")

_KEYLESS: Final = (
    "Without a key no row is told from another: of a file that waits each row becomes a new one, also where the "
    "other job applied it. It must have ended behind the file that is named, not within one."
)
"""What an adoption says of a table whose files cannot be applied twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """An adoption that an operator asks for, not yet carried out.

    `applied` are the objects that another job applied, `behind` those that the next run takes; `cautions` say what
    no later file would mend.
    """

    foreign: ExternalTable
    applied: Sequence[SourceObject]
    behind: Sequence[SourceObject]
    cautions: Sequence[str] = ()


def ask(job: Job[F], last: str | None) -> Asked:
    """Look at a table and at its source, changing nothing; `last` is the last object that another job applied.

    Without it none was. Raises ConfigError or TableError, with all reasons, where the table cannot be
    taken over, and ConfigError where there is no such object.
    """
    foreign = _port(job).look()
    reasons = list(_reasons(job, foreign))
    if reasons:
        raise TableError(
            f"{job.dimension.name} cannot be adopted as it is",
            found="; ".join(reasons),
            todo="Nothing was changed. Mend that and ask again, or let lakeward make a table of its own: "
            "docs/how-to/adopt.md#what-is-refused",
        )
    selection = job.source.select_objects(
        job.dimension, ObjectHistory(now=0 if job.ledger_writer is None else job.ledger_writer.now())
    )
    listed = sorted((*selection.objects, *selection.left), key=lambda item: (item.order, item.name))
    place = _place(job, listed, last)
    cautions = () if job.dimension.key else (_KEYLESS,)
    return Asked(foreign=foreign, applied=listed[:place], behind=listed[place:], cautions=cautions)


def adopt(job: Job[F], asked: Asked) -> Commit:
    """Make the table one of ours, at batch 1: what it remembers of objects, then columns and progress at once.

    Raises CommitConflict where it is not as it was looked at any more, and what `job.check` does.
    """
    facts = BatchFacts(schema=asked.foreign.schema, objects=tuple(ObjectFacts(item, 0) for item in asked.applied))
    dimension = replace(job.dimension, schema=asked.foreign.schema)
    plan = MergePlan(
        dimension=dimension,
        evolution=Evolution(asked.foreign.schema),
        batch=1,
        epoch=1,
        facts=facts,
        recalls=False,
        appends=not dimension.key,
        creates=False,
    )
    progress = Progress(
        batch=1,
        object=asked.applied[-1].name if asked.applied else None,
        rows=asked.foreign.rows,
        sequences=dimension.sequences,
        key=dimension.key,
        digest=digest_of(asked.applied),
    )
    job.opened.change_log.read_state(Progress())  # a table that has one already was ours
    job.check()
    commit = _port(job).adopt(asked.foreign, plan, progress)
    if job.ledger_writer is not None:
        job.ledger_writer.applied(str(dimension.name), facts.objects, progress.batch)
    return commit


def _port(job: Job[F]) -> Adoption:
    if job.opened.adoption is None:
        raise ConfigError(
            f"{job.dimension.name} cannot be adopted",
            found="its table format takes over no table of another writer",
            todo="Nothing was changed. Give the table another name, and let lakeward load it.",
        )
    return job.opened.adoption


def _reasons(job: Job[F], foreign: ExternalTable) -> Iterator[str]:
    """Return why a table cannot be written as one of ours, in words."""
    dimension = job.dimension
    yield from foreign.refused
    if dimension.snapshots is not None:
        yield 'each full load takes the place of all rows (`full_loads = "snapshot"`): drop the table instead'
    if dimension.history is not None:
        yield 'it is to be a history (`mode = "history"`), and of no row is known since when it is so'
    if dimension.is_soft:
        yield 'its deletes are to be soft (`deletes = "soft"`), and nothing says which of its rows went'
    if dimension.match is Match.IMAGE:
        yield 'its rows are to be found by their images (`match = "image"`), and have no places to be told apart by'
    refuse_names_alike(dimension, foreign.schema.columns)
    lacking = [name for name in dimension.key if foreign.schema.find(name) is None]
    if lacking:
        yield f"it lacks {', '.join(lacking)} of the key"
    if foreign.null_keys:
        yield f"{format_count(foreign.null_keys, 'row has', 'rows have')} NULL in the key"
    if foreign.twice:
        keys = format_count(foreign.twice, "key stands", "keys stand")
        yield f"{keys} more than once, {foreign.example} among them"
    if len(dimension.schema):
        found = evolve(foreign.schema, dimension.schema, dimension.policies, dimension.key)
        yield from (f"the source differs: {change}" for change in found.refused)


def _place(job: Job[F], listed: Sequence[SourceObject], last: str | None) -> int:
    """Return how many objects were applied, the last one included."""
    if last is None:
        return 0
    for place, item in enumerate(listed, 1):
        if item.name == last:
            return place
    there = f"there are {len(listed):,}, from {listed[0].name} to {listed[-1].name}" if listed else "there is none"
    raise ConfigError(
        f"{job.dimension.name}: {last} is no file of its source",
        found=there,
        todo="Name the last one that was applied to the table, or say --none where none of these was. "
        "Nothing was changed.",
    )
