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

    _OF_TABLES = ("cases", "going_back", "laws", "machine", "numbers", "races", "small", "soft_deletes", "versions")
    _OF_SOURCES = (
        "column_names",
        "feeds",
        "full_loads",
        "mended_rows",
        "read_rows",
        "restarts",
        "sources",
        "topics",
        "values",
    )
    _OF_OTHERS = (
        *("catalogues", "leases", "ledgers", "notifiers", "queues", "registrations"),
        *("settings_stores", "vaults"),
    )
    _WITH_CHECKS = (*_OF_TABLES, *_OF_SOURCES, *_OF_OTHERS)
    pytest.register_assert_rewrite(*(f"{__name__}.{name}" for name in _WITH_CHECKS))

    from lakeward.plugins.testing.bench import Bench, Law, Trial
    from lakeward.plugins.testing.cases import Case, Delivered, corpus
    from lakeward.plugins.testing.catalogues import Catalogued, catalogue_contract
    from lakeward.plugins.testing.contract import table_contract, try_law
    from lakeward.plugins.testing.feeds import Feed
    from lakeward.plugins.testing.laws import LAWS
    from lakeward.plugins.testing.leases import Tenancy, lease_contract
    from lakeward.plugins.testing.ledgers import ledger_contract
    from lakeward.plugins.testing.moments import Moment
    from lakeward.plugins.testing.notifiers import NotifierUnderTest, notifier_contract
    from lakeward.plugins.testing.play import Lake, MemoryLake, Player
    from lakeward.plugins.testing.queues import Bell, queue_contract
    from lakeward.plugins.testing.registrations import FoundEntry, RegistrationUnderTest, registration_contract
    from lakeward.plugins.testing.scripts import Item, Rows, Script
    from lakeward.plugins.testing.settings_stores import StoreUnderTest, settings_store_contract
    from lakeward.plugins.testing.sources import source_contract
    from lakeward.plugins.testing.vaults import Vault, secrets_contract
except ModuleNotFoundError as error:
    if error.name not in ("pytest", "hypothesis"):
        raise
    error.add_note("The conformance kit needs pytest and hypothesis: pip install 'lakeward[testing]'")
    raise

__all__ = [
    "LAWS",
    "Bell",
    "Bench",
    "Case",
    "Catalogued",
    "Delivered",
    "Feed",
    "FoundEntry",
    "Item",
    "Lake",
    "Law",
    "MemoryLake",
    "Moment",
    "NotifierUnderTest",
    "Player",
    "RegistrationUnderTest",
    "Rows",
    "Script",
    "StoreUnderTest",
    "Tenancy",
    "Trial",
    "Vault",
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
