"""Rules for every page: links lead somewhere, TOML is valid, lists are complete."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest
import typer
from pages import DOCS, anchors, codes, fences, links, pages, prose, sections, tables, text
from pydantic import BaseModel
from repository import ROOT, modules

from lakeward.adapters.formats.delta.options import DeltaOptions
from lakeward.adapters.formats.delta.options import TableOptions as DeltaTableOptions
from lakeward.adapters.formats.hudi.options import HudiOptions
from lakeward.adapters.formats.hudi.options import TableOptions as HudiTableOptions
from lakeward.adapters.formats.iceberg.options import IcebergOptions, TableOptions
from lakeward.adapters.formats.shared.rows.system_columns import SYSTEM_COLUMNS
from lakeward.adapters.formats.shared.side_tables.quarantine import _columns
from lakeward.adapters.sources.dms.options import DmsOptions
from lakeward.adapters.sources.files.options import FilesOptions
from lakeward.adapters.sources.jdbc.options import JdbcSourceOptions
from lakeward.adapters.sources.kafka.options import KafkaOptions
from lakeward.core.events import Sequences
from lakeward.core.merge.change_log import HOLDING, Reason
from lakeward.core.merge.counts import Counts
from lakeward.core.operations.acknowledge import PASSABLE
from lakeward.entrypoints import cli
from lakeward.entrypoints.settings import reference
from lakeward.entrypoints.settings.configuration import validate

FORMATS: Mapping[str, tuple[type[BaseModel], type[BaseModel]]] = {
    "iceberg": (IcebergOptions, TableOptions),
    "delta": (DeltaOptions, DeltaTableOptions),
    "hudi": (HudiOptions, HudiTableOptions),
}

# Links, code, names.


@pytest.mark.parametrize("page", pages(), ids=str)
def test_links_lead_somewhere(page: Path) -> None:
    for link in links(page):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = ((ROOT / page).parent / path).resolve() if path else ROOT / page
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@pytest.mark.parametrize("page", pages(), ids=str)
def test_blocks_of_toml_and_python_can_be_read(page: Path) -> None:
    assert all(isinstance(tomllib.loads(fence.content), dict) for fence in fences(page, "toml"))
    assert all(isinstance(ast.parse(fence.content), ast.Module) for fence in fences(page, "python"))


SOURCES: Mapping[str, type[BaseModel]] = {
    "dms": DmsOptions,
    "files": FilesOptions,
    "jdbc": JdbcSourceOptions,
    "kafka": KafkaOptions,
}


def test_whole_settings_on_a_page_are_valid(tmp_path: Path) -> None:
    found = 0
    for page in pages():
        for fence in fences(page, "toml"):
            content = tomllib.loads(fence.content)
            if "pipeline" in content and page.name != "write-a-plugin.md":  # of plugins: its own test runs them
                configured = validate(content, tmp_path / "lakeward.toml")
                options_of = SOURCES[configured.settings.source["kind"]]
                options_of.model_validate({k: v for k, v in configured.settings.source.items() if k != "kind"})
                target, of_tables = FORMATS[configured.settings.target["kind"]]
                target.model_validate({k: v for k, v in configured.settings.target.items() if k != "kind"})
                for options in configured.format_options().values():
                    of_tables.model_validate(options)
                found += 1
    assert found >= 3


@pytest.mark.parametrize("page", pages(), ids=str)
def test_lines_have_no_more_than_120_characters(page: Path) -> None:
    long = [line for line in text(page).splitlines() if len(line) > 120 and not line.startswith("|")]
    inside = "".join(fence.content for fence in fences(page))
    assert [line for line in long if line not in inside and "](http" not in line] == []


def test_every_target_of_make_that_a_page_names_is_there() -> None:
    named = {target for page in pages() for target in re.findall(r"\bmake ([a-z]+)\b(?=[`\s])", code(page))}
    targets = set(re.findall(r"^([a-z]+):", text("Makefile"), re.MULTILINE))
    assert {"demo", "test", "docs"} <= named <= targets


def code(page: Path) -> str:
    """Return everything on a page that is in code."""
    return "\n".join([*(f"`{part}`" for part in codes(prose(page))), *(fence.content for fence in fences(page))])


def test_every_page_that_the_code_names_is_there() -> None:
    named = {name for module in modules() for name in re.findall(r"docs/[\w/-]+\.md", text(module))}
    assert named
    assert {name for name in named if not (ROOT / name).exists()} == set()


def test_every_page_is_reached_from_the_readme() -> None:
    reached, rest = set(), [ROOT / "README.md"]
    while rest:
        page = rest.pop()
        if page not in reached and page.suffix == ".md" and page.exists():
            reached.add(page)
            rest += [(page.parent / link.partition("#")[0]).resolve() for link in links(page)]
    missing = {page.relative_to(ROOT) for page in DOCS.rglob("*.md")} - {page.relative_to(ROOT) for page in reached}
    assert {page for page in missing if page.parent.name != "changes"} == set()


# Pages that are generated or must be complete.


def test_the_settings_page_is_what_make_docs_gives() -> None:
    assert text("docs/reference/settings.md") == reference.page(), "run `make docs`"


def every_command() -> Iterator[str]:
    app = typer.main.get_command(cli.application())
    for name, command in app.commands.items():  # type: ignore[attr-defined]
        subcommands = getattr(command, "commands", {})
        yield from (f"{name} {subcommand}" for subcommand in subcommands)
        if not subcommands or command.invoke_without_command:
            yield name


def test_every_command_is_on_its_page() -> None:
    (listed, *_) = tables(text("docs/reference/commands.md"))
    page_values = [re.sub(r" (\[.*|--.*|TABLE.*|PATH.*|KIND.*)", "", codes(row["command"])[0]) for row in listed]
    assert sorted(page_values) == sorted(f"lakeward {name}" for name in every_command())


def test_the_exit_codes_are_those_of_the_help() -> None:
    (listed,) = tables(sections("docs/reference/commands.md")["Exit codes"])
    assert [row["code"] for row in listed] == re.findall(r"(?:^Exit codes: |· )(\d+)", cli._EPILOG)


def test_every_count_is_explained() -> None:
    counts = sections("docs/explanation/semantics.md")["Counts"]
    explained = [codes(row["count"])[0] for table in tables(counts) for row in table]
    assert sorted([*explained, "read"]) == sorted(field.name for field in fields(Counts))


def test_every_column_that_is_added_is_explained() -> None:
    explained = codes(sections("docs/explanation/semantics.md")["Columns that lakeward adds"])
    assert set(SYSTEM_COLUMNS) <= set(explained)


def test_every_reason_is_explained_and_whether_it_holds() -> None:
    (listed,) = tables(sections("docs/how-to/quarantine.md")["Reasons"])
    assert {Reason(codes(row["reason"])[0]) for row in listed} == set(Reason)
    assert {Reason(codes(row["reason"])[0]) for row in listed if row["holds its key"] == "yes"} == set(HOLDING)


def test_every_column_of_the_quarantine_is_explained() -> None:
    (listed,) = tables(sections("docs/how-to/quarantine.md")["The table"])
    assert sorted(name for row in listed for name in codes(row["column"])) == sorted(_columns(Sequences.TIMES))


ALARM_STORES = {
    Path("core/ledger/writer.py"),
    Path("adapters/ledgers/sqlite.py"),
    Path("adapters/ledgers/dynamodb/head.py"),
}
"""Modules that store an alarm which another module raised."""


@cache
def alarms() -> set[str]:
    """Return the codes of every alarm that the code raises."""
    found = set()
    for module in (module for module in modules() if "Alarm" in text(module)):
        for node in ast.walk(ast.parse(text(module))):
            if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("AlarmRaised", "Alarm")):
                code = node.args[0]
                assert isinstance(code, ast.Constant) or module in ALARM_STORES, module
                found |= {str(code.value)} if isinstance(code, ast.Constant) else set()
    return found


def test_every_alarm_has_its_section_which_says_what_it_means_why_it_happens_and_what_to_do() -> None:
    found = sections("docs/reference/alarms.md")
    assert {heading for heading in found if re.fullmatch(r"[A-Z]+-\d+", heading)} == alarms() != set()
    for code in alarms():
        assert all(f"**{part}.**" in found[code] for part in ("What", "Why it happens", "What to do"))
    assert {code for code in alarms() if "**`ack` means:**" in found[code]} == set(PASSABLE)


DECISIONS = sorted((DOCS / "decisions").glob("[0-9]*.md"))


@pytest.mark.parametrize("decision", DECISIONS, ids=lambda path: path.stem)
def test_a_decision_is_short_and_says_why(decision: Path) -> None:
    content = decision.read_text("utf-8")
    assert len(content.splitlines()) <= 60
    assert [*sections(decision)] == ["Context", "Decision", "Consequences"]
    assert content.startswith(f"# {decision.stem[:4]} ")


def test_decisions_are_listed_numbered_without_a_gap_and_called_by_their_titles() -> None:
    listed = [row for subject in tables(text("docs/decisions/README.md")) for row in subject]
    titles = {path.name: path.read_text("utf-8").splitlines()[0].removeprefix("# ") for path in DECISIONS}
    page_values = [(row[""], re.fullmatch(r"\[(.*)\]\((.*)\)", row["decision"])) for row in listed]
    assert [(link[2], f"{number} {link[1]}") for number, link in page_values if link] == sorted(titles.items())
    assert [name[:4] for name in titles] == [f"{number:04}" for number in range(1, len(titles) + 1)]
    names = [re.sub(r"[^a-z0-9 -]", "", title.lower()).replace(" ", "-") for title in titles.values()]
    assert [f"{name}.md" for name in names] == [*titles]


def test_code_names_decisions_that_are_there() -> None:
    named = {
        found
        for module in [*modules(), Path("Makefile"), Path("pyproject.toml")]
        for found in re.findall(r"docs/decisions/(\S*\w)", text(module))
    }
    assert {path.stem[:4] for path in DECISIONS} >= named != set()
