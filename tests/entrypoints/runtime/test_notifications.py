"""A run tells people what it has found: once for all tables, not again within the hour; it never fails for it."""

from __future__ import annotations

import shutil
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from traceback import format_exception
from types import SimpleNamespace

import pytest
from commands import Command
from failing_sources import FailingPipeline
from ledger_tables import LedgerTable
from webhooks import TOKEN, Hook

from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError, SetupError, SourceError, StoreUnreachable, TableError
from lakeward.core.events import ChangeEvent, Operation, Position
from lakeward.core.merge.change_log import Reason, Reject
from lakeward.core.reporting.alarms import Alarm
from lakeward.core.reporting.notices import RunNotice
from lakeward.entrypoints.container import Container
from lakeward.entrypoints.runtime.join_run import JoinRun
from lakeward.entrypoints.runtime.reporting.notifications import RunNotifications
from lakeward.entrypoints.settings.configuration import validate

NAMES = [TableName("shop", name) for name in ("orders", "lines")]
WEBHOOK = """
    [notify]
    kind = "webhook"
    url = { env = "LAKEWARD_WEBHOOK" }
"""
GONE = SourceError("00000001 cannot be read", found="it is cut off", todo="Replace it.")


class Pipeline(FailingPipeline):
    """A pipeline that tells what it found to a webhook."""

    def put(self, table: TableName, order: int) -> None:
        event = ChangeEvent(
            operation=Operation.UPDATE if order > 1 else Operation.INSERT,
            position=Position(1, order, order, 1),
            key=(1,),
            cells={"id": 1, "state": str(order)},
        )
        self.source.put(table, order, [event])

    def reject(self, order: int, rows: int) -> None:
        """Deliver rows of orders that go into quarantine."""
        self.source.put(NAMES[0], order, [Reject(Position(1, order, order, n), Reason.CAST) for n in range(rows)])


@pytest.fixture
def pipeline(lakeward: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Pipeline:
    found = Pipeline(lakeward, tmp_path, monkeypatch)
    found.configure(WEBHOOK)
    return found


def entries(hook: Hook) -> list[list[tuple[str | None, str]]]:
    """Return the tables and codes of each notice."""
    return [[(entry["table"], entry["code"]) for entry in posted["entries"]] for posted in hook.posted]


# One notice a run.


def test_a_run_has_one_notice_for_all_tables(pipeline: Pipeline, hook: Hook) -> None:
    pipeline.source.errors = dict.fromkeys(NAMES, GONE)
    ended = pipeline.run(0, "--json")
    assert (ended.code, ended.document["warnings"]) == (4, [])
    assert entries(hook) == [[("shop.orders", "SourceError"), ("shop.lines", "SourceError")]]
    (posted,) = hook.posted
    assert posted["run"] == ended.document["run"]
    first = posted["entries"][0]
    assert (first["reason"], first["found"], first["next_step"]) == (GONE.what, GONE.found, GONE.todo)


def test_rows_in_quarantine_are_told_once_and_the_keys_while_they_are_held(pipeline: Pipeline, hook: Hook) -> None:
    pipeline.source.put(NAMES[0], 1, [Reject(Position(1, 1, 1, 1), Reason.CAST, ((1,),))])
    assert pipeline.run().code == 3
    assert entries(hook) == [[("shop.orders", "quarantine"), ("shop.orders", "held")]]
    assert {one["next_step"] for one in hook.posted[0]["entries"]} == {"`lakeward quarantine show shop.orders`"}
    pipeline.run(1)
    assert len(hook.posted) == 1
    pipeline.run(60)
    assert entries(hook)[1:] == [[("shop.orders", "held")]]


def test_rows_that_come_within_the_hour_are_told_by_the_first_run_after_it(pipeline: Pipeline, hook: Hook) -> None:
    for order, (minutes, rows) in enumerate(((0, 5), (15, 1000), (50, 0), (65, 0)), 1):
        if rows:
            pipeline.reject(order, rows)
        pipeline.run(minutes)
    assert [(posted["at"][11:16], posted["entries"][0]["found"]) for posted in hook.posted] == [
        ("00:00", "5 rows"),
        ("01:05", "1,000 rows"),
    ]


def test_rows_that_a_notifier_did_not_take_are_told_by_the_next_run(pipeline: Pipeline, hook: Hook) -> None:
    pipeline.reject(1, 5)
    hook.status = 503
    pipeline.run()
    hook.status, hook.posted = 200, []
    pipeline.run(1)
    assert [posted["entries"][0]["found"] for posted in hook.posted] == ["5 rows"]


def test_a_run_that_cannot_go_on_is_told_as_a_whole(pipeline: Pipeline, hook: Hook) -> None:
    pipeline.put(NAMES[0], 1)
    assert pipeline.run().code == 0
    assert hook.posted == [], "a run that needs nobody tells nothing"
    pipeline.source.errors = {NAMES[0]: SetupError("there is no Java", todo="Install one.")}
    assert pipeline.run().code == 1
    assert entries(hook) == [[(None, "SetupError")]]
    assert hook.posted[0]["subject"] == "lakeward shop: the pipeline needs somebody"


@pytest.mark.parametrize("error", [ValueError, KeyError])
def test_of_an_error_that_is_none_of_ours_the_class_alone_is_told(
    pipeline: Pipeline, hook: Hook, error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.source.errors = {NAMES[0]: error("jdbc:x://db?user=u&password=hunter2")}
    assert pipeline.run().code == 4
    monkeypatch.setattr("lakeward.entrypoints.startup.findings._unrouted_rows", lambda _kept: int("hunter2"))
    with pytest.raises(ValueError, match="hunter2"):
        pipeline.run(1, "--debug")
    assert entries(hook) == [[("shop.orders", error.__name__)], [(None, "ValueError")]]
    assert "hunter2" not in str(hook.posted)
    assert "the log of the run has" in hook.posted[0]["entries"][0]["reason"]


def test_rows_of_no_table_are_told(pipeline: Pipeline, hook: Hook, monkeypatch: pytest.MonkeyPatch) -> None:
    unrouted_row = SimpleNamespace(object="0001", row=2)
    monkeypatch.setattr("lakeward.entrypoints.startup.findings._unrouted_rows", lambda _kept: [unrouted_row])
    assert pipeline.run().code == 3
    assert entries(hook) == [[(None, "strays")]]


def test_a_joined_table_that_is_not_registered_is_told(pipeline: Pipeline, hook: Hook) -> None:
    alarm = Alarm("CATALOG-001", "dw.dim is not registered as it is", found="AccessDenied", todo="Allow it.")
    file = pipeline.folder / "lakeward.toml"
    container = Container(configured=validate(tomllib.loads(file.read_text("utf-8")), file))
    people = RunNotifications(container, container.notifiers())
    assert people.tell((), [JoinRun(TableName("dw", "dim"), alarms=[alarm])]) == []
    assert entries(hook) == [[("dw.dim", "CATALOG-001")]]


# While it follows.


def test_a_follower_tells_tables_that_fail_together_in_one_notice_and_the_same_after_an_hour(
    pipeline: Pipeline, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.source.errors = dict.fromkeys(NAMES, GONE)
    pipeline.follow(130, poll="5m")
    both = [("shop.orders", "SourceError"), ("shop.lines", "SourceError")]
    assert [sorted(one) for one in entries(hook)] == [sorted(both)] * 3
    assert [posted["at"][11:16] for posted in hook.posted] == ["00:00", "01:00", "02:00"]


def test_a_follower_tells_rows_in_quarantine_when_they_come(
    pipeline: Pipeline, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    def put(minute: int) -> None:
        if minute in (10, 20):
            pipeline.source.put(NAMES[0], minute, [Reject(Position(1, minute, minute, 1), Reason.CAST)])

    pipeline.follow(140, meanwhile=put, poll="5m")
    assert [[code for _, code in one] for one in entries(hook)] == [["quarantine"]] * 2
    assert [posted["at"][11:16] for posted in hook.posted] == ["00:10", "01:10"]
    assert [posted["entries"][0]["found"] for posted in hook.posted] == ["1 row", "1 row"]


def test_one_that_does_not_answer_is_asked_once_a_minute_and_said_once(
    pipeline: Pipeline, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.source.errors = {NAMES[0]: GONE}
    hook.status = 503
    ended = pipeline.follow(10)
    assert 9 <= len(hook.posted) <= 11
    assert ended.err.count("a notice was not sent") == 1


# Not the same again.


def test_a_run_of_other_tables_forgets_nothing(pipeline: Pipeline, hook: Hook) -> None:
    pipeline.source.errors = {NAMES[0]: GONE}
    pipeline.run()
    pipeline.run(61, "shop.lines")
    pipeline.run(1)
    assert [posted["entries"][0]["since"] for posted in hook.posted] == [None, "2026-12-01T00:00:00Z"]


def test_a_worker_that_is_thrown_away_tells_nothing_again_with_a_ledger_that_outlives_it(
    pipeline: Pipeline, hook: Hook, ledger_table: LedgerTable
) -> None:
    pipeline.source.errors = {NAMES[0]: GONE}
    for ledger, notices in (("", 2), (f'[ledger]\nkind = "dynamodb"\ntable = "{ledger_table.table}"\n', 1)):
        hook.posted.clear()
        pipeline.configure(WEBHOOK, ledger)
        for _ in range(2):
            pipeline.run(1)
            shutil.rmtree(pipeline.folder / "state")
        assert len(hook.posted) == notices


# A notifier that fails.


def test_one_that_cannot_be_reached_fails_no_run_and_is_told_by_the_next(
    pipeline: Pipeline, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    pipeline.put(NAMES[1], 1)
    pipeline.source.errors = {NAMES[0]: GONE}
    hook.status = 503
    ended = pipeline.run(0, "--json")
    assert ended.code == 4
    assert ended.document["warnings"] == [
        "The notifier webhook failed: the webhook of the secret env:LAKEWARD_WEBHOOK cannot be reached "
        "(it answers with 503 Service Unavailable)."
    ]
    hook.status, hook.posted = 200, []
    pipeline.run(1)
    assert entries(hook) == [[("shop.orders", "SourceError")]]
    monkeypatch.delenv("LAKEWARD_WEBHOOK")
    (words,) = pipeline.run(60, "--json").document["warnings"]
    assert "LAKEWARD_WEBHOOK" in words, "the secret is not there any more"


@pytest.mark.parametrize("debug", [(), ("--debug",)])
@pytest.mark.parametrize("status", [200, 404, 503])
def test_the_url_is_printed_nowhere(pipeline: Pipeline, hook: Hook, status: int, debug: Sequence[str]) -> None:
    pipeline.source.errors = {NAMES[0]: GONE}
    hook.status = status
    printed = [pipeline.lakeward("run", "--log", "json", *debug), pipeline.run(0, "--json", *debug)]
    others = ("settings show", "settings check", "status", "plan")
    printed += [pipeline.lakeward(*words.split()) for words in others]
    assert len(hook.posted) == (1 if status == 200 else 2)
    assert TOKEN not in "".join(ended.out + ended.err for ended in printed)
    kept = [file for file in pipeline.folder.rglob("*") if file.is_file()]
    assert [file for file in kept if TOKEN.encode() in file.read_bytes()] == []


@pytest.mark.parametrize("section", ["[notify]", "[[notify]]"])
def test_a_url_in_the_settings_is_refused_and_shown_by_no_command(pipeline: Pipeline, section: str) -> None:
    pipeline.configure(f'{section}\nkind = "webhook"\nurl = "https://example.com/{TOKEN}"\n')
    words = ("run", "settings check", "settings show", "settings show --json", "plan", "status")
    ended = {one: pipeline.lakeward(*one.split()) for one in words}
    assert "[notify.url]: must not be the URL itself" in ended["run"].err
    assert ended["settings check"].code == 1
    assert "(hidden)" in ended["settings show"].out
    with pytest.raises(ConfigError) as error:
        pipeline.lakeward("run", "--debug")
    traced = "".join(format_exception(error.value))
    assert TOKEN not in "".join([traced, *(one.out + one.err for one in ended.values())])


@dataclass
class Raises:
    """A notifier that raises what it has been given."""

    error: Exception
    notices: list[RunNotice] = field(default_factory=list)

    def send(self, notice: RunNotice) -> None:
        self.notices.append(notice)
        raise self.error


@pytest.mark.parametrize(
    ("error", "words"), [(KeyError(TOKEN), "KeyError"), (StoreUnreachable("it is away"), "it is away")]
)
def test_whatever_a_notifier_raises_the_others_are_told_and_it_later(
    pipeline: Pipeline, hook: Hook, monkeypatch: pytest.MonkeyPatch, error: Exception, words: str
) -> None:
    monkeypatch.setattr("lakeward.adapters.notifiers.LogNotifier", lambda: Raises(error))
    pipeline.configure('[[notify]]\nkind = "log"\n', WEBHOOK.replace("[notify]", "[[notify]]"))
    pipeline.source.errors = {NAMES[0]: GONE}
    ended = pipeline.run(0, "--json")
    assert ended.document["warnings"] == [f"The notifier log failed: {words}."]
    again = pipeline.run(1, "--json")
    assert again.document["warnings"] == ended.document["warnings"]
    assert len(hook.posted) == 1


def test_rows_are_not_told_again_because_another_notifier_fails(
    pipeline: Pipeline, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = Raises(StoreUnreachable("it is away"))
    monkeypatch.setattr("lakeward.adapters.notifiers.LogNotifier", lambda: log)
    pipeline.configure('[[notify]]\nkind = "log"\n', WEBHOOK.replace("[notify]", "[[notify]]"))
    pipeline.reject(1, 5)
    later = {150: lambda: pipeline.reject(2, 3)}
    pipeline.follow(160, meanwhile=lambda n: later.get(n, lambda: None)(), poll="5m")
    assert [posted["entries"][0]["found"] for posted in hook.posted] == ["5 rows", "3 rows"]
    assert log.notices[-1].entries[0].found == "8 rows"


def test_a_ledger_that_cannot_be_used_keeps_nobody_from_being_told(
    pipeline: Pipeline, hook: Hook, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*_: object) -> None:
        raise TableError("the disk is full", todo="Make room.")

    monkeypatch.setattr("lakeward.adapters.ledgers.sqlite.SqliteLedger.account", fails)
    monkeypatch.setattr("lakeward.adapters.ledgers.sqlite.SqliteLedger.write", fails)
    assert pipeline.run().code == 4
    assert entries(hook) == [[("shop.orders", "TableError"), ("shop.lines", "TableError")]]


# Settings.


def test_several_of_a_kind_are_told_each_by_itself(pipeline: Pipeline, hook: Hook) -> None:
    pipeline.configure(*[WEBHOOK.replace("[notify]", "[[notify]]")] * 2)
    pipeline.source.errors = {NAMES[0]: GONE}
    pipeline.run()
    pipeline.run(1)
    assert entries(hook) == [[("shop.orders", "SourceError")]] * 2


@pytest.mark.parametrize(
    ("said", "words"),
    [
        ('[notify]\nkind = "webhok"\n', "no notifier is called 'webhok'. Did you mean 'webhook'?"),
        ('[notify]\nurl = { env = "X" }\n', "[[notify]] has no `kind`"),
        ('[notify]\nkind = "webhook"\nurl = { env = "X" }\ntimout = 1\n', "has no key 'timout'"),
        ('notify = "webhook"\n', "notify"),
    ],
)
def test_what_is_wrong_with_a_notifier_is_said_before_anything_is_run(
    pipeline: Pipeline, said: str, words: str
) -> None:
    text = (pipeline.folder / "lakeward.toml").read_text("utf-8").replace(WEBHOOK.replace("    ", ""), "")
    (pipeline.folder / "lakeward.toml").write_text(said + text if said.startswith("notify") else text + said)
    pipeline.put(NAMES[0], 1)
    for command in ("run", "settings check"):
        ended = pipeline.lakeward(*command.split())
        assert ended.code in (1, 2)
        assert words in ended.err
    assert pipeline.lake.tables == {}
