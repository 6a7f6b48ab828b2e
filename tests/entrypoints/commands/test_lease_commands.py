"""Commands of a pipeline that more than one machine may run: what writes takes the lease, what reads does not."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import shop
from commands import Command
from projects import write
from tenancies import DynamoDb

from lakeward.adapters.leases.dynamodb.lease import DynamoDbLease
from lakeward.adapters.memory import MemoryLease
from lakeward.core.ports import LeaseGrant
from lakeward.entrypoints.runtime.locks.writer_lease import WriterLease


def now() -> int:
    return time.time_ns() // 1000


def settings(dynamodb: DynamoDb) -> str:
    return f'{shop.SETTINGS}\n[lease]\nkind = "dynamodb"\ntable = "{dynamodb.table}"\n'


def taken_by_another(dynamodb: DynamoDb, name: str = "shop") -> LeaseGrant:
    return DynamoDbLease(dynamodb.client, dynamodb.table, 60_000_000, now).take(name, "process 7 on another")


@pytest.fixture
def dynamodb(dynamodb: DynamoDb, monkeypatch: pytest.MonkeyPatch) -> DynamoDb:
    """Return one whose clock is that of the machine: commands have no other."""
    monkeypatch.setattr(dynamodb, "clock", now)
    return dynamodb


def items(dynamodb: DynamoDb) -> dict[str, Any]:
    found = dynamodb.client.scan(TableName=dynamodb.table, ConsistentRead=True)["Items"]
    return {item["lease"]["S"]: (item["owner"]["S"], int(item["fence"]["N"])) for item in found}


def test_a_follower_lends_it_while_nothing_is_to_be_done(
    lakeward: Command, tmp_path: Path, dynamodb: DynamoDb, monkeypatch: pytest.MonkeyPatch
) -> None:
    usual, lent = WriterLease.lend, []

    def lend(self: WriterLease, meanwhile: Callable[[], bool], *rest: Any) -> bool:
        def looked() -> bool:
            lent.append(items(dynamodb))
            return meanwhile()

        found = usual(self, looked, *rest)
        os.kill(os.getpid(), signal.SIGTERM)
        return found

    monkeypatch.setattr(WriterLease, "lend", lend)
    write(tmp_path, settings(dynamodb).replace('name = "shop"', 'name = "shop"\n    poll = "1s"'))
    assert lakeward("run", "--follow").code == 0
    ((owner, _),) = [found["shop"] for found in lent]
    assert owner == "", "it is held while others may have their turn"
    assert lent[0]["shop/follow"][0].startswith("process ")
    assert items(dynamodb) == {"shop": ("", 2), "shop/follow": ("", 1)}
    assert lakeward("run").code == 0
    assert items(dynamodb)["shop"] == ("", 3), "a run takes it and gives it back"


WRITING_COMMANDS = ["run", "run --follow", "maintain", "reload shop.orders --yes", "ack shop.orders LEDGER-001"]
WRITING_COMMANDS += ["quarantine unrouted --discard", "ledger rebuild"]


@pytest.mark.parametrize("words", WRITING_COMMANDS)
def test_what_writes_ends_with_75_and_names_who_has_the_lease_and_until_when(
    lakeward: Command, tmp_path: Path, dynamodb: DynamoDb, words: str
) -> None:
    write(tmp_path, settings(dynamodb))
    term = taken_by_another(dynamodb)
    ended = lakeward(*words.split(), "--json")
    assert ended.code == 75
    error = ended.document["error"]
    assert (error["what"], error["retryable"]) == ("another process runs this pipeline", True)
    until = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(term.until // 1_000_000))
    assert error["found"] == f"process 7 on another, until {until}"
    assert items(dynamodb)["shop"] == ("process 7 on another", 1)


def test_a_second_follower_on_another_machine_is_refused(
    lakeward: Command, tmp_path: Path, dynamodb: DynamoDb
) -> None:
    write(tmp_path, settings(dynamodb))
    taken_by_another(dynamodb, "shop/follow")
    ended = lakeward("run", "--follow")
    assert ended.code == 75
    assert "error: another process follows this pipeline" in ended.err
    assert lakeward("run").code == 0, "a run has its turn while nothing is in hand"


@pytest.mark.parametrize("words", [["status"], ["plan"], ["quarantine", "list"], ["ledger", "list", "shop.orders"]])
def test_what_reads_asks_nobody(lakeward: Command, tmp_path: Path, dynamodb: DynamoDb, words: list[str]) -> None:
    write(tmp_path, settings(dynamodb))
    taken_by_another(dynamodb)
    assert lakeward(*words).code == 0


def test_a_table_that_is_not_there_is_a_mistake_that_is_named(
    lakeward: Command, tmp_path: Path, dynamodb: DynamoDb
) -> None:
    write(tmp_path, settings(replace(dynamodb, table="nowhere")))
    ended = lakeward("run")
    assert ended.code == 1
    assert "error: the DynamoDB table nowhere in eu-central-1 does not exist" in ended.err
    assert "docs/reference/lease.md" in ended.err


class IsLost(MemoryLease):
    """A lease that somebody else has taken once it is to be renewed."""

    def take(self, lease: str, owner: str) -> LeaseGrant:
        return replace(super().take(lease, owner), until=self.now())

    def renew(self, grant: LeaseGrant) -> LeaseGrant:
        return replace(grant, owner="process 7 on another", fence=grant.fence + 1)


def test_a_run_that_lost_its_turn_commits_nothing_and_ends_with_75(
    lakeward: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lakeward.adapters.memory.MemoryLease", IsLost)
    write(tmp_path, shop.SETTINGS, '\n[lease]\nkind = "memory"\n')
    ended = lakeward("run", "--json", "--log", "off")
    assert ended.code == 75
    (orders,) = ended.document["tables"]
    assert orders["batches"] == []
    assert orders["error"]["what"] == "this process has lost the lease of the pipeline"
    assert orders["error"]["found"].startswith("it is held by process 7 on another, until")
