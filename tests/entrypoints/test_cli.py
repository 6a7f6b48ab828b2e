"""The command line without Spark: exit codes, documents, words, help."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import shop
import small_lake
import third_party
import typer
from commands import Command
from projects import MEMORY, ORDERS, write

import lakeward as package
from lakeward.adapters.memory import MemoryTarget
from lakeward.adapters.spark.session.errors import lost
from lakeward.core.dimension import Dimension
from lakeward.core.errors import CommitConflict, ConfigError, EngineLost, PluginError, SetupError
from lakeward.core.pipeline.apply import apply_changes
from lakeward.core.pipeline.job import Job
from lakeward.core.progress import Progress
from lakeward.entrypoints import cli
from lakeward.entrypoints.commands import jars
from lakeward.entrypoints.commands import plan as planning
from lakeward.entrypoints.runtime.locks.pipeline_lock import locked
from lakeward.entrypoints.startup import class_archive
from lakeward.entrypoints.startup.late_spark import LateSpark


def every_command() -> Iterator[tuple[str, ...]]:
    """Return every command there is, as its words."""

    def below(command: Any, words: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        inner = getattr(command, "commands", {})
        if not inner or command.invoke_without_command:
            yield words
        for name, one in inner.items():
            yield from below(one, (*words, name))

    return (words for words in below(typer.main.get_command(cli.application()), ()) if words)


NEEDS_SETTINGS = [
    ("run",),
    ("plan",),
    ("status",),
    ("explain", "shop.orders", "1"),
    ("quarantine", "list"),
    ("quarantine", "show", "shop.orders"),
]

# Help and version.


@pytest.mark.parametrize("words", [*every_command()], ids=" ".join)
def test_the_help_of_every_command_shows_an_example(lakeward: Command, words: tuple[str, ...]) -> None:
    ended = lakeward(*words, "--help")
    assert ended.code == 0
    assert re.search(rf"Example: lakeward {' '.join(words)}\b", ended.out)


def test_help_breaks_its_lines_where_the_terminal_does_and_examples_keep_theirs(
    lakeward: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    lines = [line.strip() for line in lakeward("run", "--help").out.splitlines()]
    assert any(re.match("Each batch becomes visible .* is continued by the next one[.]", line) for line in lines)
    assert [line for line in lines if line.startswith("Example: ")] == [
        "Example: lakeward run --once shop.customer",
        "Example: lakeward run --follow --log json",
    ]
    (maintain,) = (line for line in map(str.strip, lakeward("--help").out.splitlines()) if "│ maintain" in line)
    assert "remove files that no snapshot names" in maintain


def test_the_help_lists_every_command_and_the_exit_codes_in_plain_text(lakeward: Command) -> None:
    out = lakeward("--help").out
    assert all(words[0] in out for words in every_command())
    assert "Exit codes: 0 done" in out
    assert "75 try again" in out
    assert "\x1b" not in out + lakeward("run", "--help").out
    assert lakeward("--version").out == f"lakeward {package.__version__}\n"


def test_a_command_collects_garbage_rarely(lakeward: Command) -> None:
    before = gc.get_threshold()
    gc.set_threshold(700)
    try:
        lakeward("--version")
        assert gc.get_threshold()[0] > 10_000
    finally:
        gc.set_threshold(*before)


@pytest.mark.parametrize("command", [[Path(sys.executable).with_name("lakeward")], [sys.executable, cli.__file__]])
def test_the_installed_script_and_the_module_end_with_the_exit_code(tmp_path: Path, command: list[Any]) -> None:
    ended = subprocess.run([*command, "status"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert ended.stderr.startswith("error: lakeward.toml does not exist\n")


# Mistakes.


@pytest.mark.parametrize(
    "arguments",
    [["rum"], ["run", "--max-minutes", "1"], ["run", "--jsn"], ["run", "--log", "loud"], ["quarantine", "show"]],
)
def test_wrong_usage_ends_with_2(lakeward: Command, arguments: list[str]) -> None:
    ended = lakeward(*arguments)
    assert ended.code == 2
    assert "Traceback" not in ended.err


@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe", b"[pipeline", b"", b"[pipeline]\nnaem = 'x'", MEMORY.replace('"memory"', '"memroy"').encode()],
    ids=["other encoding", "no TOML", "empty", "unknown key", "unknown kind"],
)
@pytest.mark.parametrize("words", NEEDS_SETTINGS, ids=" ".join)
def test_wrong_settings_end_with_1_and_no_stack_trace(
    lakeward: Command, tmp_path: Path, words: tuple[str, ...], content: bytes
) -> None:
    (tmp_path / "lakeward.toml").write_bytes(content)
    ended = lakeward(*words)
    assert ended.code == 1
    assert ended.err.startswith("error: ")
    assert "Traceback" not in ended.err
    assert not (tmp_path / "state" / "spark.log").exists()


LICENSED = """
from lakeward.plugins import hookimpl

@hookimpl
def register(registry):
    raise RuntimeError("no licence")
"""


@pytest.mark.parametrize("words", [["plugins"], ["run"], ["status"]], ids=" ".join)
def test_a_plugin_that_fails_is_named_and_its_stack_trace_can_be_had(
    lakeward: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    third_party.install(monkeypatch, tmp_path / "more", "lakeward_licensed", LICENSED)
    write(tmp_path, shop.SETTINGS)
    ended = lakeward(*words)
    assert ended.code == 1
    assert ended.err.splitlines() == [
        "error: the plugin lakeward_licensed failed in its hook `register`",
        "  RuntimeError: no licence",
        "  Correct or uninstall it. On the command line, --debug shows the stack trace.",
    ]
    with pytest.raises(PluginError) as shown:
        lakeward(*words, "--debug")
    assert isinstance(shown.value.__cause__, RuntimeError)


@pytest.mark.parametrize("words", NEEDS_SETTINGS, ids=" ".join)
def test_missing_settings_end_with_1_and_how_to_go_on(lakeward: Command, words: tuple[str, ...]) -> None:
    ended = lakeward(*words)
    assert (ended.code, ended.out) == (1, "")
    first, todo = ended.err.splitlines()
    assert first == "error: lakeward.toml does not exist"
    assert "--config" in todo
    document = lakeward(*words, "--json").document
    assert (document["schema_version"] in (1, 2), document["exit_code"]) == (True, 1)
    assert (document["error"]["kind"], document["error"]["what"]) == ("ConfigError", first.removeprefix("error: "))
    with pytest.raises(ConfigError, match="does not exist"):
        lakeward(*words, "--debug")


def test_an_unknown_kind_or_table_is_answered_with_the_nearest(lakeward: Command, tmp_path: Path) -> None:
    write(tmp_path, MEMORY.replace('[source]\nkind = "memory"', '[source]\nkind = "dsm"'), ORDERS)
    assert lakeward("run").err.splitlines()[:2] == [
        "error: no source is called 'dsm'. Did you mean 'dms'?",
        "  installed: dms, files, jdbc, kafka, memory, shop",
    ]
    write(tmp_path, shop.SETTINGS)
    ended = lakeward("run", "shop.order")
    said = ["error: shop.order is not configured", "  the tables are shop.orders", "  Did you mean 'shop.orders'?"]
    assert (ended.code, ended.err.splitlines()) == (1, said)


def test_the_settings_file_is_named_by_option_or_environment(
    lakeward: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = write(tmp_path, MEMORY, ORDERS).rename(tmp_path / "other.toml")
    assert lakeward("status", "--config", str(file)).code == 0
    monkeypatch.setenv("LAKEWARD_CONFIG", str(file))
    assert lakeward("status").code == 0


# Runs.


def test_a_run_says_what_it_did_in_words_and_as_a_document(in_shop: Command) -> None:
    out = in_shop("run", "--once").out
    assert re.search(r"shop\.orders +2 +2 +4  4 applied", out)
    assert "4 read = 4 applied\n" in out
    assert [(one.table, one.progress.batch) for one in shop.REPORTS] == [("shop.orders", 1), ("shop.orders", 2)]
    document = in_shop("run", "--json").document
    assert (document["schema_version"], document["command"], document["exit_code"]) == (2, "run", 0)
    (table,) = document["tables"]
    assert table["table"] == "shop.orders"
    assert table["counts"]["read"] == table["counts"]["applied"] == 4
    assert [batch["files"] for batch in table["batches"]] == [["00000001"], ["00000002"]]
    assert (table["progress"]["rows"], table["error"]) == (2, None)


def test_one_that_follows_for_no_time_at_all_begins_nothing(in_shop: Command) -> None:
    ended = in_shop("run", "--follow", "--max-minutes", "0", "--json")
    assert (ended.code, ended.document["tables"], shop.REPORTS) == (0, [], [])


@pytest.mark.parametrize("command", ["run", "plan", "status"])
def test_settings_without_a_table_are_a_mistake(lakeward: Command, tmp_path: Path, command: str) -> None:
    write(tmp_path, MEMORY)
    ended = lakeward(command)
    assert ended.code == 1
    assert "no table is configured" in ended.err
    assert "Name the tables under [tables]." in ended.err


def test_a_held_key_ends_a_run_with_3_and_the_next_step(lakeward: Command, tmp_path: Path) -> None:
    write(tmp_path, shop.SETTINGS.replace("shop.orders", "shop.held"))
    ended = lakeward("run")
    assert (ended.code, "1 key held" in ended.out) == (3, True)
    assert ended.out.endswith("Next: `lakeward quarantine show shop.held`\n")


@pytest.mark.parametrize(
    ("table", "code", "said"),
    [
        ("shop.broken", 4, "error: shop.broken: LOAD00000001.csv cannot be read"),
        ("shop.raced", 75, "error: shop.raced: another writer kept committing"),
        ("shop.defect", 4, "error: ZeroDivisionError: division by zero"),
    ],
)
def test_a_table_that_fails_stops_no_other(
    lakeward: Command, tmp_path: Path, table: str, code: int, said: str
) -> None:
    write(tmp_path, shop.SETTINGS, f'[tables."{table}"]\nkey = ["id"]\ncolumns = {{ id = "int" }}\n')
    ended = lakeward("run", "--log", "off")
    assert ended.code == code
    assert said in ended.err.splitlines()
    assert re.search(r"shop\.orders +2 +2 +4  4 applied", ended.out)
    assert "Next: " in ended.out


@pytest.mark.parametrize(
    ("arguments", "command", "said", "code"),
    [
        (["status", "--bogus", "--json"], "status", "No such option: --bogus", 2),
        (["quarantine", "fix", "--json"], "quarantine fix", "Missing argument 'table'.", 2),
        (["quarantine", "fix", "shop.none", "1", "--json"], "quarantine fix", "shop.none is not configured", 1),
    ],
)
def test_every_error_is_a_document_under_the_name_of_its_command(
    in_shop: Command, arguments: list[str], command: str, said: str, code: int
) -> None:
    ended = in_shop(*arguments)
    assert (ended.code, ended.document["exit_code"], ended.document["command"]) == (code, code, command)
    assert said in ended.document["error"]["what"]


def failing(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """Install a queue that fails where it is asked, and name it in settings."""
    code = """
        from lakeward.plugins import hookimpl

        class Broken:
            def receive(self):
                return {}["bell"]

            def acknowledge(self, notices):
                pass

            give_back = extend = acknowledge

        @hookimpl
        def register(registry):
            registry.queues.add("broken", lambda options, runtime: Broken())
    """
    third_party.install(monkeypatch, folder / "site", "lakeward_broken_queue", code)
    write(folder, shop.SETTINGS, '[queue]\nkind = "broken"\n')


def test_a_defect_outside_of_a_table_names_the_plugin_and_shows_its_stack_trace_with_debug(
    lakeward: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, tmp_path)
    ended = lakeward("run", "--json", "--log", "off")
    assert ended.err.splitlines() == [
        "error: KeyError: 'bell'",
        "  This is a defect of the plugin lakeward_broken_queue: fix it, or report it there. "
        "On the command line, --debug shows the stack trace.",
    ]
    assert (ended.code, ended.document["exit_code"]) == (1, 1)
    assert ended.document["error"]["kind"] == "KeyError"
    assert "lakeward_broken_queue" in ended.document["error"]["todo"]
    with pytest.raises(KeyError):
        lakeward("run", "--debug", "--log", "off")


def test_a_table_whose_java_was_killed_may_be_tried_again_and_is_reported(
    lakeward: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SIGTERM goes to a whole group of processes; whatever the table then says of it is beside the point."""

    def lost_by(_self: LateSpark, what: str, error: BaseException) -> EngineLost | None:
        return lost(what) if isinstance(error, ZeroDivisionError) else None

    monkeypatch.setattr(LateSpark, "lost", lost_by)
    write(tmp_path, shop.SETTINGS, '[tables."shop.defect"]\nkey = ["id"]\ncolumns = { id = "int" }\n')
    ended = lakeward("run", "--json", "--log", "off")
    assert ended.code == ended.document["exit_code"] == 75
    orders, defect = ended.document["tables"]
    assert (len(orders["batches"]), orders["error"]) == (2, None)
    assert defect["error"]["what"] == "shop.defect: Java has ended in the middle of it"
    assert defect["error"]["retryable"] is True


def test_an_error_that_lasts_outweighs_one_that_passes(lakeward: Command, tmp_path: Path) -> None:
    write(tmp_path, shop.SETTINGS, '[tables."shop.broken"]\nkey = ["id"]\n[tables."shop.raced"]\nkey = ["id"]\n')
    assert lakeward("run").code == 4


def test_a_pipeline_that_runs_elsewhere_ends_with_75(lakeward: Command, tmp_path: Path) -> None:
    write(tmp_path, shop.SETTINGS)
    with locked(tmp_path / "state"):
        ended = lakeward("run", "--json")
    assert ended.code == 75
    assert ended.document["error"]["retryable"] is True
    assert "error: another process runs this pipeline" in ended.err


# Plans.


def test_a_plan_of_nothing_new_does_not_say_that_nothing_waits(lakeward: Command, tmp_path: Path) -> None:
    write(tmp_path, small_lake.SETTINGS)
    (tmp_path / "landing").mkdir()
    ended = lakeward("plan")
    assert ended.code == 0
    assert "Nothing new to apply. `lakeward status` shows how far each table is." in ended.out


def test_a_plan_says_what_the_run_will_do_and_does_nothing(in_shop: Command) -> None:
    ended = in_shop("plan")
    assert ended.code == 0
    assert "creates the table, 2 columns" in ended.out
    assert "1 file, 2 rows: 2 insert" in ended.out
    assert "1 more file" in ended.out
    assert ended.out.endswith("Nothing has been written. Next: `lakeward run`\n")
    assert shop.REPORTS == []


def test_a_plan_is_made_anew_where_a_run_commits_meanwhile(
    in_shop: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare = planning.prepare_next_batch

    def overtaken(job: Job[Any]) -> Any:
        monkeypatch.setattr(planning, "prepare_next_batch", prepare)
        apply_changes(job)
        raise CommitConflict("another process committed to the table while a batch was worked out")

    monkeypatch.setattr(planning, "prepare_next_batch", overtaken)
    ended = in_shop("plan")
    assert (ended.code, "nothing new" in ended.out) == (0, True)


def test_a_plan_counts_as_the_run_that_follows(in_shop: Command) -> None:
    (planned,) = in_shop("plan", "--json").document["tables"]
    (ran,) = in_shop("run", "--json").document["tables"]
    names = ("files", "batch", "counts", "written", "removed")
    assert [planned[name] for name in names] == [ran["batches"][0][name] for name in names]


def test_a_plan_says_what_goes_into_quarantine_and_how_many_keys_are_held(
    lakeward: Command, tmp_path: Path
) -> None:
    write(tmp_path, shop.SETTINGS.replace("shop.orders", "shop.spoilt"))
    out = lakeward("plan").out
    assert "   into quarantine: 1 cast\n" in out
    assert "   1 key is held, 1 of them new: later events wait (`lakeward quarantine show shop.spoilt`)\n" in out
    (table,) = lakeward("plan", "--json").document["tables"]
    assert (table["rejects"], table["held"], table["held_before"]) == ({"cast": 1}, 1, 0)


def test_a_table_that_cannot_be_planned_stops_no_other_and_the_run_is_not_the_next_step(
    lakeward: Command, tmp_path: Path
) -> None:
    write(tmp_path, shop.SETTINGS, '[tables."shop.broken"]\nkey = ["id"]\n')
    ended = lakeward("plan")
    assert (ended.code, "creates the table" in ended.out) == (4, True)
    assert "shop.orders  → shop.orders" in ended.out
    assert ended.out.endswith("Nothing has been written. Next: fix the errors above, then `lakeward plan` again\n")
    assert "error: shop.broken: LOAD00000001.csv cannot be read" in ended.err
    document = lakeward("plan", "--json").document
    assert document["tables"][1]["error"]["kind"] == "SourceError"


# Facts.


def test_of_a_table_that_does_not_exist_yet_nothing_is_applied_and_nothing_in_quarantine(in_shop: Command) -> None:
    assert "nothing applied yet" in in_shop("status").out
    (table,) = in_shop("status", "--json").document["tables"]
    assert (table["exists"], table["batch"], table["committed"]) == (False, 0, None)
    for words in ("list", "show shop.orders"):
        assert in_shop("quarantine", *words.split()).out == "Nothing is in quarantine.\n"
    assert in_shop("quarantine", "list", "--json").document["entries"] == []
    replayed = in_shop(
        "quarantine", "replay", "shop.orders"
    )  # as behind a replay that was stopped after its commit
    assert (replayed.code, replayed.out) == (0, "Nothing waits to be replayed.\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["discard", "shop.orders"], "say which rows to discard"),
        (["discard", "shop.orders", "--limit", "3"], "say which rows to discard"),
        (["discard", "shop.orders", "1", "--at", "LOAD00000001.csv:3"], "a key and --at cannot be given together"),
        (["fix", "shop.orders"], "say which rows to fix"),
        (["fix", "shop.orders", "1", "--from", "rows.toml"], "a selection of rows and --from cannot be combined"),
        (["fix", "shop.orders", "--from", "rows.toml"], "rows.toml cannot be read"),
        (["list", "--reason", "kast"], "'kast' is not a reason"),
        (["show", "shop.orders", "--since", "yesterday"], "'yesterday' is neither a time nor a duration"),
        (["discard", "shop.orders", "--at", "LOAD00000001.csv:3"], "shop.orders: no row in quarantine matches\n"),
        (["export", "shop.orders", "--to", "no/folder/rows.csv"], "no/folder/rows.csv cannot be written"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_meant_by_a_command_of_the_quarantine_must_be_clear(
    in_shop: Command, arguments: list[str], said: str
) -> None:
    ended = in_shop("quarantine", *arguments)
    assert (ended.code, ended.out) == (1, "")
    assert ended.err.startswith(f"error: {said}")


def test_plugins_lists_what_is_installed_and_where_it_is_from(lakeward: Command) -> None:
    assert re.search(r"source +shop +shop *$", lakeward("plugins").out, re.MULTILINE)
    document = lakeward("plugins", "--json").document
    iceberg = {"kind": "table format", "name": "iceberg", "module": "lakeward.adapters.formats.iceberg"}
    assert iceberg in document["plugins"]
    assert (document["schema_version"], {"scout", "landing"} & {one["kind"] for one in document["plugins"]}) == (
        2,
        set(),
    )


def test_jars_lists_what_is_needed_and_whether_it_is_there(
    lakeward: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LAKEWARD_CACHE", str(tmp_path / "cache"))
    document = lakeward("jars", "--json").document
    assert (document["line"], document["cache"]) == ("4.1", str(tmp_path / "cache" / "jars"))
    assert {"iceberg", "sqlite"} <= {jar["needed_by"] for jar in document["jars"]}
    assert not any(jar["cached"] for jar in document["jars"])
    assert "iceberg-spark-runtime" in lakeward("jars").out
    unknown = lakeward("jars", "fetch", "iceburg")
    assert (unknown.code, "jars are needed by " in unknown.err) == (1, True)


@pytest.mark.parametrize("words", list(every_command()), ids=" ".join)
def test_every_command_prints_a_document_and_shows_the_stack_of_an_error(words: tuple[str, ...]) -> None:
    command: Any = typer.main.get_command(cli.application())
    for word in words:
        command = command.commands[word]
    assert {"--json", "--debug"} <= {option for known in command.params for option in known.opts}


def test_jars_and_the_archive_of_classes_are_told_in_a_document(
    lakeward: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jars, "fetch", lambda *_: None)
    document = lakeward("jars", "fetch", "sqlite", "--json").document
    assert (document["command"], document["line"], document["exit_code"]) == ("jars fetch", "4.1", 0)
    assert {jar["needed_by"] for jar in document["jars"]} == {"sqlite"}
    assert document["archive"] is None
    (there := tmp_path / "classes.jsa").write_bytes(b"classes")
    monkeypatch.setattr(class_archive, "make_archive", lambda _: there)
    assert lakeward("jars", "archive", "--json").document["archive"] == {"path": str(there), "size": 7}


def test_an_archive_of_classes_that_cannot_be_made_stops_no_fetching(
    lakeward: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails() -> None:
        raise SetupError("no Java was found")

    monkeypatch.setattr(jars, "fetch", lambda *_: None)
    monkeypatch.setattr(jars, "check_spark", fails)
    ended = lakeward("jars", "fetch", "--json")
    assert (ended.code, ended.document["archive"]) == (0, None)
    assert ended.document["archive_error"]["what"] == "no Java was found"
    assert "was not written: no Java was found. Runs start more slowly." in lakeward("jars", "fetch").out
    ended = lakeward("jars", "archive", "--json")
    assert (ended.code, ended.document["error"]["what"]) == (1, "no Java was found")


def test_a_stopped_run_says_so(lakeward: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    def stopped(*_: object, **__: object) -> None:
        raise typer.Abort

    monkeypatch.setattr(cli, "application", lambda *_: stopped)
    assert lakeward("run").code == 130


class OldCompanion:
    """What was kept beside a table by plugins of another version."""

    def recall(self, progress: Progress) -> None:
        """Recall nothing."""


@pytest.mark.parametrize("command", ["run", "plan"])
def test_a_table_of_which_a_plugin_lacks_a_method_is_refused_before_its_first_batch(
    lakeward: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    usual = MemoryTarget.open

    def open_old(self: MemoryTarget, dimension: Dimension) -> Any:
        return replace(usual(self, dimension), change_log=OldCompanion())  # type: ignore[arg-type]

    monkeypatch.setattr(MemoryTarget, "open", open_old)
    write(tmp_path, shop.SETTINGS)
    ended = lakeward(command, "--json")
    (table,) = ended.document["tables"]
    assert (ended.code, table["error"]["kind"]) == (4, "PluginError")
    assert table["error"]["what"] == f"what the plugin {__name__} makes is no ChangeLog"
    assert table["error"]["found"].endswith("which lacks applied, read_state, record_batch, record_decision, trim")
