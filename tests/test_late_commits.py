"""A commit of a killed process lands after the next process has read the table.

Java may run a moment longer than its killed Python. A table without a key could then have the rows of both commits.
Here each event is stored once, however late the other commit is, with rows or with progress alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from project import Project

from lakeward.adapters.formats.delta import table as delta
from lakeward.adapters.formats.iceberg import table as iceberg
from lakeward.core.pipeline.apply import apply_changes
from lakeward.entrypoints.container import Container
from lakeward.entrypoints.settings.configuration import load
from lakeward.entrypoints.settings.patterns import table_name

pytestmark = pytest.mark.spark

WITHOUT_A_KEY = '[tables."shop.item"]\ncolumns = { id = "int", name = "string", price = "decimal(8,2)" }\n'
FILES = ["I,1,a,1.00\nI,2,b,2.00\n", "I,2,b,2.00\n", "I,3,c,3.00\nI,3,c,3.00\n"]
ONLY_REJECTS = "U,1,a,1.00\n"
CHANGES = {"iceberg": iceberg, "delta": delta}


def put(project: Project, number: int, content: str) -> None:
    project.put(f"20261121-{10 + number}0000000.csv", content)


def apply_all(project: Project) -> Any:
    """Apply what there is, as a process without a common lock would."""
    job = Container(configured=load(project.folder / "lakeward.toml")).job(table=table_name("shop.item"))
    apply_changes(job)
    return job.opened.table.state().progress


def let_another_commit_last(kind: str, monkeypatch: pytest.MonkeyPatch, other: Callable[[], object]) -> None:
    """Let another process commit just before the call that makes our commit visible."""
    waits = [other]

    class Late(CHANGES[kind].Change):  # type: ignore[name-defined,misc]
        def __setattr__(self, name: str, value: object) -> None:
            super().__setattr__(name, value)
            if name == "is_sent" and value and waits:
                waits.pop()()

    monkeypatch.setattr(CHANGES[kind], "Change", Late)


CASES = {
    "the first batch": (0, 0, FILES),
    "the first batch, and one more file": (0, 1, FILES),
    "a later batch": (1, 0, FILES),
    "a later batch, and one more file": (1, 1, FILES),
    "a first batch of rejects alone": (0, 1, [ONLY_REJECTS, *FILES[1:]]),
    "a batch of rejects alone, and one more file": (1, 1, [FILES[0], ONLY_REJECTS, FILES[2]]),
}
IN_THE_GATE = {
    "iceberg": "a batch of rejects alone, and one more file",
    "delta": "a later batch, and one more file",
}


@pytest.mark.parametrize(
    ("kind", "case"),
    [
        pytest.param(kind, case, marks=[] if IN_THE_GATE[kind] == case else pytest.mark.long)
        for kind in CHANGES
        for case in CASES
    ],
)
def test_without_a_key_each_event_is_stored_once_however_late_another_commit_is(
    project: Project, kind: str, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stood, ahead, contents = CASES[case]
    project.kind = kind
    project.configure(WITHOUT_A_KEY)
    for number in range(stood):
        put(project, number, contents[number])
        apply_all(project)
    put(project, stood, contents[stood])

    def another() -> None:
        if ahead and stood < 2:
            put(project, stood + 1, contents[stood + 1])
        apply_all(project)

    let_another_commit_last(kind, monkeypatch, another)
    apply_all(project)
    for number in range(stood + 1, 3):
        put(project, number, contents[number])
    progress = apply_all(project)
    lines = sorted(line for content in contents for line in content.splitlines() if line.startswith("I"))
    assert [f"I,{number},{name},{price}" for number, name, price in project.rows()] == lines
    assert progress.totals.read == sum(len(content.splitlines()) for content in contents)
