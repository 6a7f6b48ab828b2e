"""Tags and grants of Lake Formation, with the parts that moto simulates and else with the exact requests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber
from glue_catalog import Glue
from moto.lakeformation.models import lakeformation_backends
from pydantic import ValidationError
from structlog.testing import capture_logs

from lakeward.adapters.registrations.glue import build
from lakeward.adapters.registrations.glue.catalog import GlueCatalog
from lakeward.adapters.registrations.glue.lake_formation import AccessOptions, LakeFormation
from lakeward.core.errors import ConfigError, StoreUnreachable
from lakeward.core.ports import DescribedColumn, TableDescription
from lakeward.core.schema import parse_type
from lakeward.plugins import Runtime

ANALYST = "arn:aws:iam::123456789012:role/analyst"
TABLE = TableDescription(
    namespace="shop",
    name="orders",
    format="delta",
    location="s3://lake/shop/orders",
    columns=tuple(DescribedColumn(name=name, type=parse_type("string")) for name in ("Id", "email")),
)
WHOLE = {"Table": {"DatabaseName": "shop", "Name": "orders"}}
DATABASE = {"Database": {"Name": "shop"}}


@pytest.fixture
def client(glue: Glue) -> Any:
    """Return a client of Lake Formation; moto stores grants, and no tags of tables."""
    return boto3.Session().client("lakeformation")


def access(client: Any, **options: Any) -> LakeFormation:
    formation = LakeFormation(AccessOptions.model_validate(options))
    formation.__dict__["client"] = client
    return formation


def changes(client: Any) -> list[str]:
    """Return a list to which each later operation that changes something is added."""
    operations: list[str] = []

    def note(model: Any, **_: Any) -> None:
        if not model.name.startswith(("Get", "List")):
            operations.append(model.name)

    client.meta.events.register("after-call.lakeformation", note)
    return operations


@pytest.fixture(autouse=True)
def _no_grants() -> None:
    lakeformation_backends.reset()


def permissions(client: Any) -> list[tuple[Any, Any, Any]]:
    listed = client.list_permissions()["PrincipalResourcePermissions"]
    mine = [one for one in listed if one["Principal"]["DataLakePrincipalIdentifier"] == ANALYST]
    return [(one["Resource"], one["Permissions"], one["PermissionsWithGrantOption"]) for one in mine]


def tags(**values: str) -> list[dict[str, Any]]:
    return [{"TagKey": key, "TagValues": [value]} for key, value in values.items()]


def expect_tags(
    stub: Stubber, resource: dict[str, Any], response: dict[str, Any], missing: list[tuple[dict[str, Any], Any]]
) -> None:
    """Expect a request for the tags of a resource, and requests that add tags to it or to its columns."""
    stub.add_response("get_resource_lf_tags", response, {"Resource": resource, "ShowAssignedLFTags": True})
    for place, place_tags in missing:
        stub.add_response("add_lf_tags_to_resource", {}, {"Resource": place, "LFTags": place_tags})


OF_ALL: dict[str, Any] = {"database_tags": {"domain": "sales"}, "lf_tags": {"domain": "sales", "pii": "yes"}}
OF_ORDERS = {"lf_tags": {"pii": "no"}, "column_tags": {"Email": {"pii": "yes"}}}
EMAIL = {"TableWithColumns": {"DatabaseName": "shop", "Name": "orders", "ColumnNames": ["email"]}}


def test_missing_tags_are_set(client: Any) -> None:
    with Stubber(client) as stub:
        expect_tags(stub, DATABASE, {}, [(DATABASE, tags(domain="sales"))])
        expect_tags(stub, WHOLE, {}, [(WHOLE, tags(domain="sales", pii="no"))])
        expect_tags(stub, WHOLE, {}, [(EMAIL, tags(pii="yes"))])
        formation = access(client, **OF_ALL, tables={"shop.orders": OF_ORDERS})
        formation.apply(TABLE, ("shop", "orders"))
        stub.assert_no_pending_responses()
        expect_tags(stub, WHOLE, {"LFTagsOnTable": tags(pii="yes", domain="sales")}, [(WHOLE, tags(pii="no"))])
        others = [{"Name": "id", "LFTags": tags(pii="yes")}, {"Name": "email", "LFTags": tags(pii="no")}]
        expect_tags(stub, WHOLE, {"LFTagsOnColumns": others}, [(EMAIL, tags(pii="yes"))])
        formation.apply(TABLE, ("shop", "orders"))
        stub.assert_no_pending_responses()


def test_correct_tags_are_not_set_again(client: Any) -> None:
    with Stubber(client) as stub:
        expect_tags(stub, DATABASE, {"LFTagOnDatabase": tags(domain="sales")}, [])
        expect_tags(stub, WHOLE, {"LFTagsOnTable": tags(domain="sales", pii="no", team="of others")}, [])
        expect_tags(stub, WHOLE, {"LFTagsOnColumns": [{"Name": "email", "LFTags": tags(pii="yes")}]}, [])
        access(client, **OF_ALL, tables={"shop.orders": OF_ORDERS}).apply(TABLE, ("shop", "orders"))
        stub.assert_no_pending_responses()


def test_missing_grants_are_made(glue: Glue, client: Any) -> None:
    database = {"principal": ANALYST, "permissions": ["DESCRIBE"]}
    table = {"principal": ANALYST, "permissions": ["SELECT", "DESCRIBE"], "grantable": True}
    options = {"database_grants": [database], "grants": [table]}
    access(client, **options).apply(TABLE, ("shop", "orders"))
    listed = permissions(client)
    assert len(listed) == 2
    assert (DATABASE, ["DESCRIBE"], []) in listed
    (table_permissions,) = [sorted(names) for resource, names, _ in listed if resource == WHOLE]
    assert table_permissions == ["DESCRIBE", "SELECT"]
    operations = changes(client)
    access(client, **options).apply(TABLE, ("shop", "orders"))
    assert operations == []


def test_tags_and_grants_are_logged_only_if_some_were_added(glue: Glue, client: Any) -> None:
    grant = {"principal": ANALYST, "permissions": ["SELECT"]}
    registration = glue.catalog()
    for options, lines in (({}, 0), ({"grants": [grant]}, 1), ({"grants": [grant]}, 0)):
        with_access = replace(registration, access=access(client, **options))
        with capture_logs() as logs:
            with_access.register(replace(TABLE, format="iceberg"))
        logged = [entry["table"] for entry in logs if entry["event"] == "tags and grants added"]
        assert logged == ["shop.orders"] * lines
        assert [entry for entry in logs if entry["event"] == "registered"] == []


def test_applying_tags_returns_whether_one_was_added(client: Any) -> None:
    with Stubber(client) as stub:
        for resource in (DATABASE, WHOLE):
            expect_tags(stub, resource, {}, [(resource, tags(domain="sales"))])
        options: dict[str, Any] = {"database_tags": {"domain": "sales"}, "lf_tags": {"domain": "sales"}}
        assert access(client, **options).apply(TABLE, ("shop", "orders"))
        expect_tags(stub, DATABASE, {"LFTagOnDatabase": tags(domain="sales")}, [])
        expect_tags(stub, WHOLE, {"LFTagsOnTable": tags(domain="sales")}, [])
        assert not access(client, **options).apply(TABLE, ("shop", "orders"))
        columns: dict[str, Any] = {"tables": {"shop.orders": {"column_tags": {"email": {"pii": "yes"}}}}}
        expect_tags(stub, WHOLE, {}, [(EMAIL, tags(pii="yes"))])
        assert access(client, **columns).apply(TABLE, ("shop", "orders"))
        stub.assert_no_pending_responses()


def listed(*entries: dict[str, Any]) -> dict[str, Any]:
    principal = {"DataLakePrincipalIdentifier": ANALYST}
    return {"PrincipalResourcePermissions": [{"Principal": principal, **entry} for entry in entries]}


def of_columns(**columns: Any) -> dict[str, Any]:
    resource = {"TableWithColumns": {"DatabaseName": "shop", "Name": "orders", **columns}}
    return {"Resource": resource, "Permissions": ["SELECT"], "PermissionsWithGrantOption": []}


SOME, ALL_BUT = {"columns": ["Id"]}, {"all_but": ["EMAIL"]}


@pytest.mark.parametrize(
    ("grant", "expected"),
    [(SOME, {"ColumnNames": ["id"]}), (ALL_BUT, {"ColumnWildcard": {"ExcludedColumnNames": ["email"]}})],
)
def test_a_grant_of_columns_is_for_them_alone(client: Any, grant: dict[str, Any], expected: dict[str, Any]) -> None:
    principal = {"DataLakePrincipalIdentifier": ANALYST}
    with Stubber(client) as stub:
        stub.add_response("list_permissions", listed(), {"Principal": principal, "Resource": WHOLE})
        asked = {
            "Principal": principal,
            "Resource": of_columns(**expected)["Resource"],
            "Permissions": ["SELECT"],
            "PermissionsWithGrantOption": [],
        }
        stub.add_response("grant_permissions", {}, asked)
        options = {"principal": ANALYST, "permissions": ["SELECT"], **grant}
        access(client, grants=[options]).apply(TABLE, ("shop", "orders"))
        stub.assert_no_pending_responses()


WILDCARD: dict[str, Any] = {"ColumnWildcard": {}}


@pytest.mark.parametrize(
    ("grant", "there", "is_granted"),
    [
        ({}, WILDCARD, True),
        ({}, {"ColumnNames": ["id", "email"]}, False),
        ({}, {"ColumnWildcard": {"ExcludedColumnNames": ["email"]}}, False),
        (SOME, WILDCARD, True),
        (SOME, {"ColumnNames": ["email"]}, False),
        (SOME, {"ColumnNames": ["email", "id"]}, True),
        (SOME, {"ColumnWildcard": {"ExcludedColumnNames": ["id"]}}, False),
        (ALL_BUT, {"ColumnWildcard": {"ExcludedColumnNames": ["email"]}}, True),
        (ALL_BUT, {"ColumnWildcard": {"ExcludedColumnNames": ["email", "id"]}}, False),
        (ALL_BUT, WILDCARD, True),
    ],
)
def test_grants_are_made_once(client: Any, grant: dict[str, Any], there: dict[str, Any], is_granted: bool) -> None:
    with Stubber(client) as stub:
        stub.add_response("list_permissions", {**listed(), "NextToken": "more"})
        stub.add_response("list_permissions", listed(of_columns(**there)))
        if not is_granted:
            stub.add_response("grant_permissions", {})
        options = {"principal": ANALYST, "permissions": ["SELECT"], **grant}
        access(client, grants=[options]).apply(TABLE, ("shop", "orders"))
        stub.assert_no_pending_responses()


def test_a_grant_that_is_not_grantable_yet_is_made_again(client: Any) -> None:
    there = {"Resource": WHOLE, "Permissions": ["SELECT"], "PermissionsWithGrantOption": []}
    with Stubber(client) as stub:
        stub.add_response("list_permissions", listed(there))
        stub.add_response("grant_permissions", {})
        options = {"principal": ANALYST, "permissions": ["SELECT"], "grantable": True}
        access(client, grants=[options]).apply(TABLE, ("shop", "orders"))
        stub.assert_no_pending_responses()


def test_the_catalog_of_another_account_is_in_each_request(client: Any) -> None:
    formation = LakeFormation(AccessOptions(lf_tags={"pii": "no"}), catalog_id="210987654321")
    formation.__dict__["client"] = client
    resource = {"Table": {**WHOLE["Table"], "CatalogId": "210987654321"}}
    with Stubber(client) as stub:
        own = {"Resource": resource, "CatalogId": "210987654321"}
        stub.add_response("get_resource_lf_tags", {}, {**own, "ShowAssignedLFTags": True})
        tag = {"CatalogId": "210987654321", "TagKey": "pii", "TagValues": ["no"]}
        stub.add_response("add_lf_tags_to_resource", {}, {**own, "LFTags": [tag]})
        formation.apply(TABLE, ("shop", "orders"))
        stub.assert_no_pending_responses()


def test_settings_for_all_tables_do_not_apply_to_a_quarantine(client: Any) -> None:
    quarantine = replace(TABLE, name="orders__quarantine", is_raw=True)
    grants = [{"principal": ANALYST, "permissions": ["SELECT"]}]
    options: dict[str, Any] = {"lf_tags": {"pii": "no"}, "grants": grants}
    with Stubber(client):
        access(client, **options).apply(quarantine, ("shop", "orders__quarantine"))
    own = {"shop.orders__quarantine": {"grants": grants}}
    with Stubber(client) as stub:
        stub.add_response("list_permissions", listed())
        stub.add_response("grant_permissions", {})
        access(client, **options, tables=own).apply(quarantine, ("shop", "orders__quarantine"))
        stub.assert_no_pending_responses()


def test_a_missing_tag_is_an_error(client: Any) -> None:
    failure = {"LFTag": {"TagKey": "pii", "TagValues": ["no"]}, "Error": {"ErrorCode": "EntityNotFoundException"}}
    with Stubber(client) as stub:
        stub.add_response("get_resource_lf_tags", {})
        stub.add_response("add_lf_tags_to_resource", {"Failures": [failure]})
        with pytest.raises(ConfigError) as raised:
            access(client, lf_tags={"pii": "no"}).apply(TABLE, ("shop", "orders"))
    assert raised.value.what == "access to shop.orders in Lake Formation: the LF-tag pii cannot be set"
    assert (raised.value.found, "'no'" in str(raised.value.todo)) == ("AWS says EntityNotFoundException", True)


@pytest.mark.parametrize(
    ("code", "kind", "expected"),
    [
        ("AccessDeniedException", ConfigError, "may not be written"),
        ("EntityNotFoundException", ConfigError, "does not exist"),
        ("InvalidInputException", ConfigError, "cannot be written"),
        ("ConcurrentModificationException", StoreUnreachable, "cannot be written now"),
    ],
)
def test_errors_of_lake_formation_are_translated(client: Any, code: str, kind: type, expected: str) -> None:
    with Stubber(client) as stub:
        stub.add_client_error("get_resource_lf_tags", code, "of a test")
        with pytest.raises(kind) as raised:
            access(client, lf_tags={"pii": "no"}).apply(TABLE, ("shop", "orders"))
    assert expected in str(raised.value)


def test_unknown_columns_and_tables_are_refused(client: Any) -> None:
    with Stubber(client):
        for own in ({"column_tags": {"mail": {"pii": "yes"}}}, {"grants": [_grant(columns=["mail"])]}):
            with pytest.raises(ConfigError, match="has no column 'mail'"):
                access(client, tables={"shop.orders": own}).apply(TABLE, ("shop", "orders"))
        with pytest.raises(ConfigError, match="has no column 'mail'"):
            access(client, grants=[_grant(all_but=["mail"])]).apply(TABLE, ("shop", "orders"))
    formation = access(client, tables={"shop.orders__quarantine": {}, "shop.oders": {}})
    with pytest.raises(ConfigError) as raised:
        GlueCatalog("shop", access=formation).check([("shop", "orders")])
    assert "shop.oders" in str(raised.value)
    assert "shop.orders" in str(raised.value.todo)


def _grant(**own: Any) -> dict[str, Any]:
    return {"principal": ANALYST, "permissions": ["SELECT"], **own}


@pytest.mark.parametrize(
    "grant",
    [_grant(columns=["a"], all_but=["b"]), _grant(columns=["a"], permissions=["INSERT"]), _grant(columns=[])],
)
def test_invalid_grants_are_refused(grant: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        AccessOptions.model_validate({"grants": [grant]})


def test_grants_follow_the_entry_and_iceberg_keeps_its_entries(glue: Glue, client: Any) -> None:
    catalog = glue.catalog(access=access(client, grants=[_grant()]))
    catalog.register(TABLE)
    assert (glue.changes, len(permissions(client))) == (["CreateDatabase", "CreateTable"], 1)
    glue.changes.clear()
    catalog.register(replace(TABLE, name="items", format="iceberg"))
    assert (glue.changes, len(permissions(client))) == ([], 2)


def test_the_settings_reach_lake_formation(glue: Glue) -> None:
    options = {"region": "eu-west-1", "catalog_id": "210987654321", "lake_formation": {"lf_tags": {"pii": "no"}}}
    built = build(options, Runtime(lambda: None))
    assert isinstance(built, GlueCatalog)
    assert built.access is not None
    assert built.access.client.meta.region_name == "eu-west-1"
    assert (built.access.catalog_id, built.access.options.lf_tags) == ("210987654321", {"pii": "no"})
