"""The catalogue `file`: tables described in files next to the feed, as SQL or JSON."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from lakeward.adapters.catalogues import ddl, documents
from lakeward.core.dimension import TableName
from lakeward.core.errors import CatalogueUnreachable, ConfigError
from lakeward.core.settings.source_catalogue import SourceTable

Database = Literal["postgresql", "mariadb", "mysql", "sqlserver", "oracle"]

_ENDINGS: Final = (".sql", ".ddl", ".json")


class FileOptions(BaseModel):
    """Tables described in files: as SQL (`.sql`, `.ddl`) or as JSON (`.json`)."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    path: str = Field(
        description="The file, or a folder of them; a relative path is relative to the settings file."
    )
    database: Database | None = Field(
        None,
        description="Whose types and dialect they have. SQL needs it; JSON without it has the types of "
        "docs/reference/types.md.",
    )
    schema_: str | None = Field(
        None, alias="schema", description="The schema of tables whose name in the files has none."
    )


@dataclass(frozen=True, slots=True)
class FileCatalogue:
    """Files that describe tables, read at each request."""

    path: Path
    options: FileOptions

    def describe(self, tables: Collection[TableName]) -> Mapping[TableName, SourceTable]:
        """Return the descriptions of these tables in the files."""
        tables_and_files: dict[TableName, tuple[SourceTable, Path]] = {}
        for file in self._files():
            for table in self._tables(file):
                other = tables_and_files.setdefault(table.name, (table, file))
                if other[0] is not table:
                    raise ConfigError(
                        f"{table.name} is described twice", found=f"found it in {other[1]} and {file}"
                    )
        return chosen({name: table for name, (table, _) in tables_and_files.items()}, tables)

    def _files(self) -> list[Path]:
        try:
            if not self.path.is_dir():
                return [self.path]
            files = sorted(path for path in self.path.iterdir() if path.suffix.lower() in _ENDINGS)
        except OSError as error:
            raise _unreachable(self.path, error) from error
        if not files:
            raise CatalogueUnreachable(
                f"the catalogue {self.path} has no file",
                found=f"it looks for {', '.join(_ENDINGS)}",
                todo="Put one there, or correct `path` under [catalogue].",
            )
        return files

    def _tables(self, file: Path) -> Iterator[SourceTable]:
        try:
            text = file.read_text(encoding="utf-8-sig")
        except UnicodeDecodeError as error:
            raise ConfigError(f"{file} is no text in UTF-8", found=str(error)) from error
        except OSError as error:
            raise _unreachable(file, error) from error
        database, schema = self.options.database, self.options.schema_
        if file.suffix.lower() == ".json":
            yield from documents.tables(text, database, schema, str(file))
            return
        if database is None:
            raise ConfigError(
                f"{file} is SQL, and [catalogue] does not say of which database",
                todo=f"Say it by `database`: {', '.join(ddl.DIALECTS)}.",
            )
        yield from ddl.tables(text, database, schema, str(file))


def chosen(
    described: Mapping[TableName, SourceTable], wanted: Collection[TableName]
) -> Mapping[TableName, SourceTable]:
    """Return the wanted tables by the names given; names match without case if there is no exact match.

    Raises ConfigError if several names match without case and none is exact.
    """
    by_folded_name: dict[tuple[str, ...], list[TableName]] = {}
    for name in described:
        by_folded_name.setdefault(_folded(name), []).append(name)
    tables: dict[TableName, SourceTable] = {}
    for name in wanted:
        matches = [name] if name in described else by_folded_name.get(_folded(name), [])
        if len(matches) > 1:
            raise ConfigError(
                f"{name}: which of these tables of the catalogue is meant cannot be told",
                found=", ".join(map(str, matches)),
                todo=f'Name it as the database does, by `name` under [tables."{name}".catalogue].',
            )
        if matches:
            tables[name] = described[matches[0]]
    return tables


def _folded(name: TableName) -> tuple[str, ...]:
    return tuple(part.lower() for part in name)


def _unreachable(path: Path, error: OSError) -> CatalogueUnreachable:
    return CatalogueUnreachable(
        f"the catalogue {path} cannot be read",
        found=str(error),
        todo="Put the file there, or correct `path` under [catalogue].",
    )
