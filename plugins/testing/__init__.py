"""The conformance kit: what must hold for whatever a plugin registers, as test classes of pytest.

    from lakeward.plugins.testing import Bench, table_contract

    TestMyTable = table_contract(lambda: Bench(lake=MyLake()))

A lake under test (`Lake`) opens tables anew, makes frames of events, and reads rows with another
reader than the one that wrote them. Laws that a table closes by the capabilities that it does not
declare are skipped by name; the report at the end of a session says which were run. The kit needs
`lakeward[testing]`; nothing else of lakeward imports it.
"""

try:
    import pytest

    pytest.register_assert_rewrite(*(f"{__name__}.{name}" for name in ("cases", "feeds", "laws")))

    from lakeward.plugins.testing.bench import Bench, Law, Trial
    from lakeward.plugins.testing.cases import Case, Delivered, corpus
    from lakeward.plugins.testing.contract import table_contract, try_law
    from lakeward.plugins.testing.feeds import Feed
    from lakeward.plugins.testing.laws.catalogues import CatalogueUnderTest, catalogue_contract
    from lakeward.plugins.testing.laws.leases import LeaseUnderTest, lease_contract
    from lakeward.plugins.testing.laws.ledgers import ledger_contract
    from lakeward.plugins.testing.laws.notifiers import NotifierUnderTest, notifier_contract
    from lakeward.plugins.testing.laws.queues import QueueUnderTest, queue_contract
    from lakeward.plugins.testing.laws.registrations import FoundEntry, RegistrationUnderTest, registration_contract
    from lakeward.plugins.testing.laws.secret_stores import SecretStoreUnderTest, secrets_contract
    from lakeward.plugins.testing.laws.settings_stores import StoreUnderTest, settings_store_contract
    from lakeward.plugins.testing.laws.sources.object_selection import source_contract
    from lakeward.plugins.testing.laws.tables.random_histories import LAWS
    from lakeward.plugins.testing.moments import Moment
    from lakeward.plugins.testing.player import Lake, MemoryLake, Player
    from lakeward.plugins.testing.scripts import Item, Rows, Script
except ModuleNotFoundError as error:
    if error.name not in ("pytest", "hypothesis"):
        raise
    error.add_note("The conformance kit needs pytest and hypothesis: pip install 'lakeward[testing]'")
    raise

__all__ = [
    "LAWS",
    "Bench",
    "Case",
    "CatalogueUnderTest",
    "Delivered",
    "Feed",
    "FoundEntry",
    "Item",
    "Lake",
    "Law",
    "LeaseUnderTest",
    "MemoryLake",
    "Moment",
    "NotifierUnderTest",
    "Player",
    "QueueUnderTest",
    "RegistrationUnderTest",
    "Rows",
    "Script",
    "SecretStoreUnderTest",
    "StoreUnderTest",
    "Trial",
    "catalogue_contract",
    "corpus",
    "lease_contract",
    "ledger_contract",
    "notifier_contract",
    "queue_contract",
    "registration_contract",
    "secrets_contract",
    "settings_store_contract",
    "source_contract",
    "table_contract",
    "try_law",
]
