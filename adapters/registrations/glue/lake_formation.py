"""Permissions of registered tables: LF-tags and grants of Lake Formation, from the settings.

Tags and grants of the settings are added. Those of others are kept, and so are those that the settings no longer
have.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from lakeward.adapters.aws.service_clients import client_of, translate_errors
from lakeward.core.errors import ConfigError
from lakeward.core.ports import TableDescription
from lakeward.core.text.suggestions import nearest

PAGE: Final = "docs/how-to/aws/catalogs.md"

_Text = Annotated[str, StringConstraints(min_length=1)]

DatabasePermission = Literal["ALL", "ALTER", "CREATE_TABLE", "DESCRIBE", "DROP"]
TablePermission = Literal["ALL", "ALTER", "DELETE", "DESCRIBE", "DROP", "INSERT", "SELECT"]


class _Options(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class DatabaseGrant(_Options):
    """What a principal may do with a database."""

    principal: _Text = Field(description="The ARN of a role or a user, or the id of an account.")
    permissions: list[DatabasePermission] = Field(min_length=1, description="What it may do with the database.")
    grantable: bool = Field(False, description="Whether it may grant that to others.")


class TableGrant(_Options):
    """What a principal may do with a table, or with some of its columns."""

    principal: _Text = Field(description="The ARN of a role or a user, or the id of an account.")
    permissions: list[TablePermission] = Field(min_length=1, description="What it may do with the table.")
    columns: list[_Text] | None = Field(
        None, min_length=1, description='Only these columns; it takes `permissions = ["SELECT"]`.'
    )
    all_but: list[_Text] | None = Field(
        None, min_length=1, description="All columns but these, those that come later too; it takes the same."
    )
    grantable: bool = Field(False, description="Whether it may grant that to others.")

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.columns is not None and self.all_but is not None:
            raise ValueError("say `columns` or `all_but`, not both")
        if (self.columns or self.all_but) and self.permissions != ["SELECT"]:
            raise ValueError('Lake Formation grants columns for `permissions = ["SELECT"]` alone')
        return self


class TableAccess(_Options):
    """Tags and grants of one table, beside those of all."""

    lf_tags: dict[str, _Text] = Field(default_factory=dict, description="Its LF-tags, each with one value.")
    column_tags: dict[str, dict[str, _Text]] = Field(
        default_factory=dict, description="LF-tags of columns, by the name of the column."
    )
    grants: list[TableGrant] = Field(default_factory=list, description="Who may do what with it.")


class AccessOptions(_Options):
    """Tags and grants of Lake Formation, for all tables that are registered; tags must be there already."""

    database_tags: dict[str, _Text] = Field(
        default_factory=dict, description='LF-tags of each database, as `{ domain = "sales" }`.'
    )
    database_grants: list[DatabaseGrant] = Field(
        default_factory=list,
        description="Who may do what with each database: `principal`, `permissions`, `grantable`.",
    )
    lf_tags: dict[str, _Text] = Field(default_factory=dict, description="LF-tags of each table.")
    grants: list[TableGrant] = Field(
        default_factory=list,
        description="Who may do what with each table, and not with its quarantine: `principal`, `permissions`, "
        "`grantable`, and `columns` or `all_but` where it is about some columns.",
    )
    tables: dict[str, TableAccess] = Field(
        default_factory=dict,
        description="The same for single tables, by their names in the lake: `lf_tags`, `grants`, and "
        "`column_tags` by columns.",
    )


@dataclass(frozen=True)
class LakeFormation:
    """Applies tags and grants to tables, and to each database once."""

    options: AccessOptions
    region: str | None = None
    catalog_id: str | None = None
    done: set[str] = field(default_factory=set)

    @cached_property
    def client(self) -> Any:
        """The client of Lake Formation."""
        return client_of("lakeformation", self.region)

    def check(self, tables: Sequence[tuple[str, str]]) -> None:
        """Raise ConfigError for a table of the settings that is not among these (namespace, name)."""
        known = [".".join(table) for table in tables]
        for name in self.options.tables:
            if name.removesuffix("__quarantine") not in known:
                raise ConfigError(
                    f"[registration.lake_formation.tables] has a table that is not there: {name}",
                    found="the tables are " + (", ".join(known) or "none"),
                    todo=nearest(name, known) or "Name it as the lake does: namespace and name.",
                )

    def apply(self, table: TableDescription, place: tuple[str, str]) -> bool:
        """Apply the settings to a table that is registered at `place` (database, name).

        Settings for all tables do not apply to a quarantine. Return True if a tag or a grant was added. Raises
        ConfigError for a column that the table lacks, a tag that does not exist, or a missing permission.
        """
        own = self.options.tables.get(".".join(table.identifier), TableAccess())
        database, name = place
        what = f"access to {database}.{name} in Lake Formation"
        tags = own.lf_tags if table.is_raw else {**self.options.lf_tags, **own.lf_tags}
        grants = own.grants if table.is_raw else [*self.options.grants, *own.grants]
        _check_columns(what, own, grants, [column.name for column in table.columns])
        with translate_errors(what, PAGE, "written"):
            is_changed = database not in self.done and self._apply_to_database(database, what)
            self.done.add(database)
            whole = {"DatabaseName": database, "Name": name, **self._catalog_arguments}
            is_changed |= self._tag({"Table": whole}, tags, "LFTagsOnTable", what)
            is_changed |= self._tag_columns(whole, own.column_tags, what)
            for grant in grants:
                is_changed |= self._grant({"Table": whole}, _resource(whole, grant), grant)
        return is_changed

    def _apply_to_database(self, database: str, what: str) -> bool:
        resource = {"Database": {"Name": database, **self._catalog_arguments}}
        is_changed = self._tag(resource, self.options.database_tags, "LFTagOnDatabase", what)
        for grant in self.options.database_grants:
            is_changed |= self._grant(resource, resource, grant)
        return is_changed

    @property
    def _catalog_arguments(self) -> Mapping[str, str]:
        return {} if self.catalog_id is None else {"CatalogId": self.catalog_id}

    def _tag(self, resource: Mapping[str, Any], tags: Mapping[str, str], assigned: str, what: str) -> bool:
        if not tags:
            return False
        found = self.client.get_resource_lf_tags(
            Resource=resource, ShowAssignedLFTags=True, **self._catalog_arguments
        )
        return self._add(resource, tags, _values(found.get(assigned, ())), what)

    def _tag_columns(self, table: Mapping[str, Any], tags: Mapping[str, Mapping[str, str]], what: str) -> bool:
        if not tags:
            return False
        request = {"Resource": {"Table": table}, "ShowAssignedLFTags": True, **self._catalog_arguments}
        listed = self.client.get_resource_lf_tags(**request).get("LFTagsOnColumns", ())
        found = {one["Name"]: _values(one.get("LFTags", ())) for one in listed}
        is_changed = False
        for column, wanted in tags.items():
            name = column.lower()
            resource = {"TableWithColumns": {**table, "ColumnNames": [name]}}
            is_changed |= self._add(resource, wanted, found.get(name, {}), what)
        return is_changed

    def _add(
        self, resource: Mapping[str, Any], tags: Mapping[str, str], found: Mapping[str, Sequence[str]], what: str
    ) -> bool:
        """Add tags that the resource lacks or has with another value; a tag of a resource has one value.

        Return True if any was added.
        """
        missing = {key: value for key, value in tags.items() if found.get(key) != [value]}
        if not missing:
            return False
        lf_tags = [
            {"TagKey": key, "TagValues": [value], **self._catalog_arguments} for key, value in missing.items()
        ]
        answer = self.client.add_lf_tags_to_resource(Resource=resource, LFTags=lf_tags, **self._catalog_arguments)
        if failures := answer.get("Failures"):
            tag, error = failures[0].get("LFTag", {}), failures[0].get("Error", {})
            raise ConfigError(
                f"{what}: the LF-tag {tag.get('TagKey')} cannot be set",
                found=f"AWS says {error.get('ErrorMessage') or error.get('ErrorCode')}",
                todo=f"Is it there, with the value {missing.get(tag.get('TagKey'))!r}? {PAGE} has the permissions.",
            )
        return True

    def _grant(
        self, asked: Mapping[str, Any], resource: Mapping[str, Any], grant: DatabaseGrant | TableGrant
    ) -> bool:
        """Add missing grants; `asked` is the resource for which Lake Formation lists grants.

        Return True if any was added.
        """
        principal = {"DataLakePrincipalIdentifier": grant.principal}
        pages = self._pages(Principal=principal, Resource=asked)
        found = [one for one in pages if _is_within(resource, one["Resource"])]
        granted = {name for one in found for name in one.get("Permissions", ())}
        passed_on = {name for one in found for name in one.get("PermissionsWithGrantOption", ())}
        missing = [name for name in grant.permissions if name not in granted]
        to_pass = [name for name in grant.permissions if grant.grantable and name not in passed_on]
        if not missing and not to_pass:
            return False
        self.client.grant_permissions(
            Principal=principal,
            Resource=resource,
            Permissions=grant.permissions,
            PermissionsWithGrantOption=to_pass,
            **self._catalog_arguments,
        )
        return True

    def _pages(self, **asked: Any) -> Iterator[Mapping[str, Any]]:
        token: Mapping[str, str] = {}
        while True:
            answer = self.client.list_permissions(**asked, **token, **self._catalog_arguments)
            yield from answer.get("PrincipalResourcePermissions", ())
            if not answer.get("NextToken"):
                return
            token = {"NextToken": answer["NextToken"]}


def _check_columns(what: str, own: TableAccess, grants: Sequence[TableGrant], columns: Sequence[str]) -> None:
    """Raise ConfigError for a column that the table lacks: a misspelt one would be visible to everybody."""
    known = {name.lower() for name in columns}
    granted = [name for one in grants for name in (*(one.columns or ()), *(one.all_but or ()))]
    for name in (*own.column_tags, *granted):
        if name.lower() not in known:
            raise ConfigError(
                f"{what}: the table has no column {name!r}",
                found="the columns are " + ", ".join(columns),
                todo="Correct it under [registration.lake_formation].",
            )


def _values(tags: Sequence[Mapping[str, Any]]) -> Mapping[str, Sequence[str]]:
    return {tag["TagKey"]: tag["TagValues"] for tag in tags}


def _resource(table: Mapping[str, Any], grant: TableGrant) -> Mapping[str, Any]:
    if grant.columns is not None:
        return {"TableWithColumns": {**table, "ColumnNames": [name.lower() for name in grant.columns]}}
    if grant.all_but is not None:
        excluded = {"ExcludedColumnNames": [name.lower() for name in grant.all_but]}
        return {"TableWithColumns": {**table, "ColumnWildcard": excluded}}
    return {"Table": table}


def _is_within(wanted: Mapping[str, Any], granted: Mapping[str, Any]) -> bool:
    """Return whether a wanted resource is part of a granted one.

    Lake Formation lists SELECT on a table by columns.
    """
    if "Database" in wanted:
        return "Database" in granted
    columns = granted.get("TableWithColumns")
    if columns is None:
        return "Table" in granted
    excluded = set((columns.get("ColumnWildcard") or {}).get("ExcludedColumnNames") or ())
    is_wildcard = "ColumnWildcard" in columns
    own = wanted.get("TableWithColumns", {"ColumnWildcard": {}})
    if "ColumnNames" in own:
        names = set(own["ColumnNames"])
        return names.isdisjoint(excluded) if is_wildcard else names <= set(columns.get("ColumnNames") or ())
    return is_wildcard and excluded <= set(own["ColumnWildcard"].get("ExcludedColumnNames") or ())
