"""Permissions of registered tables: LF-tags and grants of Lake Formation, from the settings.

Tags and grants of the settings are added. Nothing is removed: tags and grants that other programs set stay, and
so do those that were removed from the settings.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints, model_validator

from lakeward.adapters.aws.service_clients import create_client, explain_errors
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
    grantable: bool = Field(False, description="Whether it may grant these permissions to others.")


class TableGrant(_Options):
    """What a principal may do with a table, or with some of its columns."""

    principal: _Text = Field(description="The ARN of a role or a user, or the id of an account.")
    permissions: list[TablePermission] = Field(min_length=1, description="What it may do with the table.")
    columns: list[_Text] | None = Field(
        None, min_length=1, description='Only these columns; requires `permissions = ["SELECT"]`.'
    )
    all_but: list[_Text] | None = Field(
        None, min_length=1, description="All columns but these, also later ones; requires the same."
    )
    grantable: bool = Field(False, description="Whether it may grant these permissions to others.")

    @model_validator(mode="after")
    def _check_columns_of_grant(self) -> Self:
        if self.columns is not None and self.all_but is not None:
            raise ValueError("set `columns` or `all_but`, not both")
        if (self.columns or self.all_but) and self.permissions != ["SELECT"]:
            raise ValueError('Lake Formation grants columns only for `permissions = ["SELECT"]`')
        return self


class TableAccess(_Options):
    """Tags and grants of one table, in addition to those of all tables."""

    lf_tags: dict[str, _Text] = Field(
        default_factory=dict, description="LF-tags of the table, each with one value."
    )
    column_tags: dict[str, dict[str, _Text]] = Field(
        default_factory=dict, description="LF-tags of columns, by the name of the column."
    )
    grants: list[TableGrant] = Field(default_factory=list, description="Who may do what with the table.")


class AccessOptions(_Options):
    """Tags and grants of Lake Formation for all registered tables; the tags must exist."""

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
        description="Who may do what with each table, but not with its quarantine: `principal`, `permissions`, "
        "`grantable`, and `columns` or `all_but` to grant only some columns.",
    )
    tables: dict[str, TableAccess] = Field(
        default_factory=dict,
        description="The same for single tables, by their names in the lake: `lf_tags`, `grants`, and "
        "`column_tags` by column.",
    )


@dataclass(frozen=True)
class LakeFormation:
    """Applies tags and grants to tables, and to each database once.

    Without `region` and `catalog_id` they are the configured region and the catalog of the account. `databases` are
    those to which the settings were applied.
    """

    options: AccessOptions
    region: str | None = None
    catalog_id: str | None = None
    databases: set[str] = field(default_factory=set)

    @cached_property
    def client(self) -> Any:
        """The client of Lake Formation."""
        return create_client("lakeformation", self.region)

    def check(self, tables: Sequence[tuple[str, str]]) -> None:
        """Raise ConfigError for a table of the settings that is not among these (namespace, name)."""
        names = [".".join(table) for table in tables]
        for name in self.options.tables:
            if name.removesuffix("__quarantine") not in names:
                raise ConfigError(
                    f"[registration.lake_formation.tables] has an unknown table: {name}",
                    found="the tables are " + (", ".join(names) or "none"),
                    todo=nearest(name, names) or "Write its name in the lake: namespace and name.",
                )

    def apply(self, table: TableDescription, place: tuple[str, str]) -> bool:
        """Apply the settings to a table that is registered at `place` (database, name).

        Settings for all tables do not apply to a quarantine. Return True if a tag or a grant was added. Raises
        ConfigError for a column that the table lacks, a tag that does not exist, or a missing permission.
        """
        table_access = self.options.tables.get(".".join(table.identifier), TableAccess())
        database, name = place
        what = f"access to {database}.{name} in Lake Formation"
        tags = table_access.lf_tags if table.is_raw else {**self.options.lf_tags, **table_access.lf_tags}
        grants = table_access.grants if table.is_raw else [*self.options.grants, *table_access.grants]
        _check_columns(what, table_access, grants, [column.name for column in table.columns])
        with explain_errors(what, PAGE, "written"):
            is_changed = database not in self.databases and self._apply_to_database(database, what)
            self.databases.add(database)
            resource = {"DatabaseName": database, "Name": name, **self._catalog_arguments}
            is_changed |= self._tag({"Table": resource}, tags, "LFTagsOnTable", what)
            is_changed |= self._tag_columns(resource, table_access.column_tags, what)
            for grant in grants:
                is_changed |= self._grant({"Table": resource}, _granted_resource(resource, grant), grant)
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

    def _tag(self, resource: Mapping[str, Any], tags: Mapping[str, str], field_name: str, what: str) -> bool:
        """Add missing tags to a database or a table; `field_name` is the field of the response with its tags."""
        if not tags:
            return False
        response = self.client.get_resource_lf_tags(
            Resource=resource, ShowAssignedLFTags=True, **self._catalog_arguments
        )
        return self._add(resource, tags, _values(response.get(field_name, ())), what)

    def _tag_columns(self, table: Mapping[str, Any], tags: Mapping[str, Mapping[str, str]], what: str) -> bool:
        if not tags:
            return False
        request = {"Resource": {"Table": table}, "ShowAssignedLFTags": True, **self._catalog_arguments}
        columns = self.client.get_resource_lf_tags(**request).get("LFTagsOnColumns", ())
        current = {column["Name"]: _values(column.get("LFTags", ())) for column in columns}
        is_changed = False
        for column_name, tags_of_column in tags.items():
            name = column_name.lower()
            resource = {"TableWithColumns": {**table, "ColumnNames": [name]}}
            is_changed |= self._add(resource, tags_of_column, current.get(name, {}), what)
        return is_changed

    def _add(
        self, resource: Mapping[str, Any], tags: Mapping[str, str], current: Mapping[str, Sequence[str]], what: str
    ) -> bool:
        """Add tags that the resource lacks or has with another value; a tag of a resource has one value.

        Return True if any was added.
        """
        missing = {key: value for key, value in tags.items() if current.get(key) != [value]}
        if not missing:
            return False
        lf_tags = [
            {"TagKey": key, "TagValues": [value], **self._catalog_arguments} for key, value in missing.items()
        ]
        response = self.client.add_lf_tags_to_resource(Resource=resource, LFTags=lf_tags, **self._catalog_arguments)
        if failures := response.get("Failures"):
            tag, error = failures[0].get("LFTag", {}), failures[0].get("Error", {})
            raise ConfigError(
                f"{what}: the LF-tag {tag.get('TagKey')} cannot be set",
                found=f"AWS says {error.get('ErrorMessage') or error.get('ErrorCode')}",
                todo=f"Create the tag with the value {missing.get(tag.get('TagKey'))!r}, or grant the "
                f"permissions that {PAGE} lists.",
            )
        return True

    def _grant(
        self, parent: Mapping[str, Any], resource: Mapping[str, Any], grant: DatabaseGrant | TableGrant
    ) -> bool:
        """Add missing permissions on a resource; `parent` is the table or database for which grants are listed.

        Return True if any was added.
        """
        principal = {"DataLakePrincipalIdentifier": grant.principal}
        entries = self._list_permissions(Principal=principal, Resource=parent)
        current = [entry for entry in entries if _is_within(resource, entry["Resource"])]
        permissions = {name for entry in current for name in entry.get("Permissions", ())}
        grantable = {name for entry in current for name in entry.get("PermissionsWithGrantOption", ())}
        missing = [name for name in grant.permissions if name not in permissions]
        missing_grantable = [name for name in grant.permissions if grant.grantable and name not in grantable]
        if not missing and not missing_grantable:
            return False
        self.client.grant_permissions(
            Principal=principal,
            Resource=resource,
            Permissions=grant.permissions,
            PermissionsWithGrantOption=missing_grantable,
            **self._catalog_arguments,
        )
        return True

    def _list_permissions(self, **request: Any) -> Iterator[Mapping[str, Any]]:
        token: Mapping[str, str] = {}
        while True:
            response = self.client.list_permissions(**request, **token, **self._catalog_arguments)
            yield from response.get("PrincipalResourcePermissions", ())
            if not response.get("NextToken"):
                return
            token = {"NextToken": response["NextToken"]}


def _check_columns(
    what: str, table_access: TableAccess, grants: Sequence[TableGrant], columns: Sequence[str]
) -> None:
    """Raise ConfigError for a column that the table lacks: a misspelt exclusion would exclude nothing."""
    known_names = {name.lower() for name in columns}
    names_of_grants = [name for grant in grants for name in (*(grant.columns or ()), *(grant.all_but or ()))]
    for name in (*table_access.column_tags, *names_of_grants):
        if name.lower() not in known_names:
            raise ConfigError(
                f"{what}: the table has no column {name!r}",
                found="the columns are " + ", ".join(columns),
                todo="Correct the name under [registration.lake_formation].",
            )


def _values(tags: Sequence[Mapping[str, Any]]) -> Mapping[str, Sequence[str]]:
    return {tag["TagKey"]: tag["TagValues"] for tag in tags}


def _granted_resource(table: Mapping[str, Any], grant: TableGrant) -> Mapping[str, Any]:
    if grant.columns is not None:
        return {"TableWithColumns": {**table, "ColumnNames": [name.lower() for name in grant.columns]}}
    if grant.all_but is not None:
        excluded = {"ExcludedColumnNames": [name.lower() for name in grant.all_but]}
        return {"TableWithColumns": {**table, "ColumnWildcard": excluded}}
    return {"Table": table}


def _is_within(resource: Mapping[str, Any], listed: Mapping[str, Any]) -> bool:
    """Return True if a resource is part of the resource of a listed grant.

    Lake Formation lists SELECT on a table as a grant on its columns.
    """
    if "Database" in resource:
        return "Database" in listed
    columns = listed.get("TableWithColumns")
    if columns is None:
        return "Table" in listed
    excluded = set((columns.get("ColumnWildcard") or {}).get("ExcludedColumnNames") or ())
    is_wildcard = "ColumnWildcard" in columns
    selection = resource.get("TableWithColumns", {"ColumnWildcard": {}})
    if "ColumnNames" in selection:
        names = set(selection["ColumnNames"])
        return names.isdisjoint(excluded) if is_wildcard else names <= set(columns.get("ColumnNames") or ())
    return is_wildcard and excluded <= set(selection["ColumnWildcard"].get("ExcludedColumnNames") or ())
