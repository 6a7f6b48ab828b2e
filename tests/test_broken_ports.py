"""Each law of these ports fails on a mistake, and holds on the correct adapter."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import broken_services as services
import broken_stores as stores
import pytest
from mutations import FAILURES, Law, PortMistakes
from tenancies import in_memory

from lakeward.adapters.memory import MemoryLease, MemoryLedger, MemoryQueue
from lakeward.adapters.secrets.local import EnvironmentSecrets
from lakeward.plugins.testing.laws import (
    catalogues,
    leases,
    ledgers,
    notifiers,
    queues,
    registrations,
    secret_stores,
    settings_stores,
)

PORTS: Final = (
    PortMistakes(catalogues.LAWS, services.Catalogue, services.catalogue_bench, services.CATALOGUES),
    PortMistakes(leases.LAWS, MemoryLease, in_memory, stores.LEASES),
    PortMistakes(ledgers.LAWS, MemoryLedger, stores.ledger_bench, stores.LEDGERS),
    PortMistakes(notifiers.LAWS, services.Board, services.notifier_bench, services.NOTIFIERS),
    PortMistakes(queues.LAWS, MemoryQueue, services.bell, services.QUEUES),
    PortMistakes(registrations.LAWS, services.Registration, services.registration_bench, services.REGISTRATIONS),
    PortMistakes(secret_stores.LAWS, EnvironmentSecrets, stores.secrets_bench, stores.SECRET_STORES),
    PortMistakes(settings_stores.LAWS, stores.Items, stores.items_bench, stores.SETTINGS_STORES),
)


@pytest.mark.parametrize(
    ("port", "law"), [pytest.param(port, law, id=law.__name__) for port in PORTS for law in port.laws]
)
def test_a_law_fails_on_its_mistake(port: PortMistakes, law: Law) -> None:
    port.check(law)


@pytest.mark.parametrize("port", PORTS, ids=lambda port: port.correct.__name__)
def test_every_law_has_a_mistake(port: PortMistakes) -> None:
    assert [law.__name__ for law in port.laws] == [*port.by_law]


def test_a_ledger_of_one_process_breaks_a_law() -> None:
    with pytest.raises(FAILURES):
        ledgers.notes_are_read_back_complete_and_in_order(MemoryLedger)


def test_a_notifier_that_raises_no_error_is_detected() -> None:
    law = notifiers.an_unreachable_notifier_says_what_to_do_and_shows_no_secret
    with pytest.raises(pytest.fail.Exception):
        law(replace(services.notifier_bench(services.Board), unreachable=services.Board()))


def test_a_catalogue_with_too_few_tables_is_refused() -> None:
    own = services.TABLES
    for tables in (own[:1], own[1:], (own[0], *own[2:])):
        with pytest.raises(ValueError, match="needs"):
            services.catalogue_bench(services.Catalogue, tables)
