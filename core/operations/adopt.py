"""Adopt a table that another engine wrote: check it as a whole, then continue it.

Its rows are kept. They count as rows of a full load: older than every change.
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
    "Without a key no copy of a row is recognised: of a waiting file each row becomes a new one, even if the other "
    "job applied it. That job must have ended behind the named file, not within a file."
)
"""The warning of an adoption without a key: its files cannot be applied twice."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AdoptionRequest:
    """An adoption that an operator asks for, checked and not carried out.

    `applied` are the objects that another job applied, `remaining` those that the next run applies. `cautions` are
    warnings about what no later file can correct.
    """

    external: ExternalTable
    applied: Sequence[SourceObject]
    remaining: Sequence[SourceObject]
    cautions: Sequence[str] = ()


def request_adoption(job: Job[F], last_applied: str | None) -> AdoptionRequest:
    """Check a table and its source, changing nothing.

    `last_applied` is the last object that another job applied, None where it applied none. Raises TableError, with
    all reasons, where the table cannot be adopted, and ConfigError where its table format cannot adopt, or there is
    no such object.
    """
    external = _adoption_port(job).inspect()
    reasons = list(_reasons(job, external))
    if reasons:
        raise TableError(
            f"{job.dimension.name} cannot be adopted as it is",
            found="; ".join(reasons),
            todo="Nothing was changed. Correct that and ask again, or let lakeward make a table of its own: "
            "docs/how-to/adopt.md#what-is-refused",
        )
    selection = job.source.select_objects(
        job.dimension, ObjectHistory(now=0 if job.ledger_writer is None else job.ledger_writer.now())
    )
    listed = sorted((*selection.objects, *selection.remaining), key=lambda item: (item.order, item.name))
    count = _count_applied(job, listed, last_applied)
    cautions = () if job.dimension.key else (_KEYLESS,)
    return AdoptionRequest(external=external, applied=listed[:count], remaining=listed[count:], cautions=cautions)


def adopt(job: Job[F], request: AdoptionRequest) -> Commit:
    """Make the table a table of lakeward at batch 1: first its change log, then columns and progress in one commit.

    Raises CommitConflict where the table has changed since it was checked, and what `job.check` raises.
    """
    facts = BatchFacts(
        schema=request.external.schema, objects=tuple(ObjectFacts(item, 0) for item in request.applied)
    )
    dimension = replace(job.dimension, schema=request.external.schema)
    plan = MergePlan(
        dimension=dimension,
        evolution=Evolution(request.external.schema),
        batch=1,
        epoch=1,
        facts=facts,
        recalls=False,
        appends=not dimension.key,
        creates=False,
    )
    progress = Progress(
        batch=1,
        object=request.applied[-1].name if request.applied else None,
        rows=request.external.rows,
        sequences=dimension.sequences,
        key=dimension.key,
        digest=digest_of(request.applied),
    )
    job.opened.change_log.read_state(Progress())  # raises where the table has a change log already
    job.check()
    commit = _adoption_port(job).adopt(request.external, plan, progress)
    if job.ledger_writer is not None:
        job.ledger_writer.record_applied(str(dimension.name), facts.objects, progress.batch)
    return commit


def _adoption_port(job: Job[F]) -> Adoption:
    """Return the port that adopts tables; raises ConfigError where the table format has none."""
    if job.opened.adoption is None:
        raise ConfigError(
            f"{job.dimension.name} cannot be adopted",
            found="its table format takes over no table of another writer",
            todo="Nothing was changed. Give the table another name, and let lakeward load it.",
        )
    return job.opened.adoption


def _reasons(job: Job[F], external: ExternalTable) -> Iterator[str]:
    """Yield in words why a table cannot be adopted."""
    dimension = job.dimension
    yield from external.refused
    if dimension.snapshots is not None:
        yield 'each full load takes the place of all rows (`full_loads = "snapshot"`): drop the table instead'
    if dimension.history is not None:
        yield 'it is to be a history (`mode = "history"`), and it is unknown since when its rows are valid'
    if dimension.is_soft:
        yield 'its deletes are to be soft (`deletes = "soft"`), and its deleted rows are unknown'
    if dimension.match is Match.IMAGE:
        yield 'its rows are to be found by their images (`match = "image"`), and equal rows have no positions'
    refuse_names_alike(dimension, external.schema.columns)
    lacking = [name for name in dimension.key if external.schema.find(name) is None]
    if lacking:
        yield f"it lacks {', '.join(lacking)} of the key"
    if external.null_keys:
        yield f"{format_count(external.null_keys, 'row has', 'rows have')} NULL in the key"
    if external.duplicate_keys:
        keys = format_count(external.duplicate_keys, "key stands", "keys stand")
        yield f"{keys} more than once, {external.example} among them"
    if len(dimension.schema):
        evolution = evolve(external.schema, dimension.schema, dimension.policies, dimension.key)
        yield from (f"the source differs: {change}" for change in evolution.refused)


def _count_applied(job: Job[F], listed: Sequence[SourceObject], last_applied: str | None) -> int:
    """Return how many of the listed objects were applied, `last_applied` included."""
    if last_applied is None:
        return 0
    for count, item in enumerate(listed, 1):
        if item.name == last_applied:
            return count
    listed_words = (
        f"there are {len(listed):,}, from {listed[0].name} to {listed[-1].name}" if listed else "there is none"
    )
    raise ConfigError(
        f"{job.dimension.name}: {last_applied} is no file of its source",
        found=listed_words,
        todo="Name the last one that was applied to the table, or say --none where none of these was. "
        "Nothing was changed.",
    )
