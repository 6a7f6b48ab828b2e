"""Tables in a file of SQL: `CREATE TABLE`, keys that are added afterwards, and comments.

sqlglot splits the text into tokens by the dialect of the database: quotes, comments, brackets. The first words of a
column definition are enough, so storage, constraints and partitions need not be understood (docs/decisions/0018).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Final

import sqlglot
from sqlglot.errors import SqlglotError
from sqlglot.tokenizer_core import TokenType

from lakeward.adapters.catalogues.types import Written, our_type, written
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.core.settings.source_catalogue import SourceColumn, SourceTable

DIALECTS: Final[Mapping[str, str]] = {
    "postgresql": "postgres",
    "mariadb": "mysql",
    "mysql": "mysql",
    "sqlserver": "tsql",
    "oracle": "oracle",
}
"""The names of the databases in sqlglot."""


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


_TABLE_ELEMENTS: Final = _words(
    "CONSTRAINT PRIMARY UNIQUE FOREIGN CHECK KEY INDEX EXCLUDE LIKE PERIOD FULLTEXT SPATIAL SUPPLEMENTAL"
)
"""First words of table elements that are not columns."""

_AFTER_TYPE: Final = _words(
    "NOT NULL DEFAULT CONSTRAINT PRIMARY UNIQUE REFERENCES CHECK GENERATED COLLATE CHARSET COMMENT "
    "AUTO_INCREMENT IDENTITY AS ON STORAGE COMPRESSION ENCRYPT INVISIBLE VISIBLE ROWGUIDCOL SPARSE "
    "MASKED USING VIRTUAL STORED KEY ENABLE DISABLE SORT FORMAT"
)
"""Words that follow the type of a column."""


@dataclass(frozen=True, slots=True)
class Token:
    """A word, a mark or a quoted text; with `is_string` it is a string and not a name."""

    text: str
    is_quoted: bool = False
    is_string: bool = False

    @property
    def word(self) -> str:
        """The word or mark in upper case; '' for quoted text."""
        return "" if self.is_quoted else self.text.upper()


def tables(sql: str, database: str, schema: str | None, file: str) -> Sequence[SourceTable]:
    """Return the tables that a file creates; `schema` is the schema of tables that name none.

    Raises ConfigError for unreadable SQL, and for a file that changes the columns of a table: such a file is a
    series of changes, not the current tables.
    """
    reader = _Reader(database, schema, file)
    try:
        tokens = [*_tokens(sql, DIALECTS[database])]
    except SqlglotError as error:
        raise ConfigError(
            f"{file} cannot be read as the SQL of {database}",
            found=str(error).splitlines()[0],
            todo="Let it have the tables alone, without data: `pg_dump --schema-only`, `mysqldump --no-data`.",
        ) from error
    for statement in _statements(tokens):
        reader.read(statement)
    return list(reader.tables.values())


def _tokens(sql: str, dialect: str) -> Iterator[Token]:
    """Yield the tokens of sqlglot; a keyword of two words becomes two tokens."""
    for token in sqlglot.tokenize(sql, read=dialect):
        if token.token_type in (TokenType.IDENTIFIER, TokenType.STRING):
            yield Token(token.text, True, token.token_type is TokenType.STRING)
        else:
            yield from map(Token, token.text.split())


def _statements(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Split tokens at semicolons, and at the separators of the shells of SQL Server and Oracle."""
    part, depth = list[Token](), 0
    for token in tokens:
        depth += (token.word == "(") - (token.word == ")")
        if token.word in (";", "GO") or (token.word == "/" and depth == 0):
            yield part
            part, depth = [], 0
        else:
            part.append(token)
    yield part


@dataclass(slots=True)
class _Reader:
    """The tables of a file that were read so far."""

    database: str
    schema: str | None
    file: str
    tables: dict[TableName, SourceTable] = field(default_factory=dict)

    def read(self, statement: Sequence[Token]) -> None:
        words = [token.word for token in statement[:6]]
        if words[:1] == ["CREATE"] and "TABLE" in words and "AS" not in words:
            self._create(statement[words.index("TABLE") + 1 :])
        elif words[:2] == ["ALTER", "TABLE"]:
            self._alter(statement[2:])
        elif words[:2] == ["COMMENT", "ON"] and words[2:3] in (["TABLE"], ["COLUMN"]):
            self._comment(words[2], statement[3:])

    def _create(self, rest: Sequence[Token]) -> None:
        name, rest = self._name(_without(rest, "IF", "NOT", "EXISTS"))
        elements, options = _in_brackets(rest)
        columns: list[SourceColumn] = []
        key: tuple[str, ...] = ()
        for part in _split_at_commas(elements):
            if part[0].word in _TABLE_ELEMENTS:
                key = self._key_of(part) or key
                continue
            columns.append(self._column(part))
            if ("PRIMARY", "KEY") in _pairs(part):
                key = (columns[-1].name,)
        if columns:
            comment = _comment_in(options)
            self.tables[name] = SourceTable(name=name, columns=tuple(columns), key=key, comment=comment)

    def _column(self, part: Sequence[Token]) -> SourceColumn:
        words, depth = list[Token](), 0
        for index, token in enumerate(part[1:], 1):
            next_words = " ".join(following.word for following in part[index : index + 2])
            if depth == 0 and (token.word in _AFTER_TYPE or next_words == "CHARACTER SET"):
                break
            depth += (token.word == "(") - (token.word == ")")
            words.append(token)
        return SourceColumn(
            name=self._folded_name(part[0]),
            written=_type_text(words) or "nothing",
            type=our_type(self.database, _parse_type(words)),
            comment=_comment_in(part[1:]),
        )

    def _key_of(self, part: Sequence[Token]) -> tuple[str, ...]:
        """Return the columns of a primary key constraint; none for other constraints."""
        pairs = _pairs(part)
        if ("PRIMARY", "KEY") not in pairs:
            return ()
        inside, _ = _in_brackets(part[pairs.index(("PRIMARY", "KEY")) + 2 :])
        return tuple(self._folded_name(column[0]) for column in _split_at_commas(inside))

    def _alter(self, rest: Sequence[Token]) -> None:
        name, rest = self._name(_without(_without(rest, "ONLY"), "IF", "EXISTS"))
        while rest and rest[0].word in ("WITH", "CHECK", "NOCHECK"):
            rest = rest[1:]
        words = [token.word for token in rest]
        adds_column = words[:1] == ["ADD"] and words[1:2] and words[1].strip("(") not in _TABLE_ELEMENTS
        changes_type = words[:2] == ["ALTER", "COLUMN"] and not {"SET", "DROP", "ADD", "RESTART"} & {*words[3:4]}
        sets_type = words[:2] == ["ALTER", "COLUMN"] and words[3:6] == ["SET", "DATA", "TYPE"]
        if (
            adds_column
            or changes_type
            or sets_type
            or words[:2] == ["DROP", "COLUMN"]
            or words[:1] in (["RENAME"], ["CHANGE"])
        ):
            raise ConfigError(
                f"{self.file} changes the columns of {name} after it made them",
                found=" ".join(token.text for token in rest[:6]) + (" …" if len(rest) > 6 else ""),
                todo="Let the file have the tables as they are: `pg_dump --schema-only`, `mysqldump --no-data`, "
                "`SHOW CREATE TABLE`, DBMS_METADATA, or the scripts of Management Studio.",
            )
        key = self._key_of(rest)
        if key and name in self.tables:
            self.tables[name] = replace(self.tables[name], key=key)

    def _comment(self, kind: str, rest: Sequence[Token]) -> None:
        parts = [self._folded_name(token) for token in rest if token.word != "."]
        names = parts[: next((n for n, part in enumerate(parts) if part.upper() == "IS"), 0)]
        comment = rest[-1].text if rest[-1].is_string else None
        column = names.pop() if kind == "COLUMN" and names else None
        name = self._table_name(names)
        table = self.tables.get(name)
        if table is None:
            return
        if column is None:
            self.tables[name] = replace(table, comment=comment)
            return
        columns = [replace(c, comment=comment) if c.name == column else c for c in table.columns]
        self.tables[name] = replace(table, columns=tuple(columns))

    def _name(self, tokens: Sequence[Token]) -> tuple[TableName, Sequence[Token]]:
        """Return the name of a table and the tokens after it.

        Of a name with a database the last two parts count.
        """
        parts, rest = [self._folded_name(tokens[0])], tokens[1:]
        while len(rest) > 1 and rest[0].word == ".":
            parts.append(self._folded_name(rest[1]))
            rest = rest[2:]
        return self._table_name(parts), rest

    def _table_name(self, parts: Sequence[str]) -> TableName:
        (*_, schema) = (self.schema or "", *parts[:-1])
        if not schema:
            raise ConfigError(
                f"{self.file} makes the table {parts[-1] if parts else '?'}, and does not say of which schema",
                todo="Say it by `schema` under [catalogue].",
            )
        return TableName(schema, parts[-1])

    def _folded_name(self, token: Token) -> str:
        """Return a name as the database stores it: unquoted names are folded."""
        if token.is_quoted:
            return token.text
        fold = {"postgresql": str.lower, "oracle": str.upper}.get(self.database, str)
        return fold(token.text)


def _without(tokens: Sequence[Token], *words: str) -> Sequence[Token]:
    """Return the tokens without these words, if they begin with all of them."""
    return tokens[len(words) :] if [token.word for token in tokens[: len(words)]] == [*words] else tokens


def _pairs(tokens: Sequence[Token]) -> list[tuple[str, str]]:
    """Return each word with the next one."""
    words = [token.word for token in tokens]
    return [*pairwise(words)]


def _in_brackets(tokens: Sequence[Token]) -> tuple[Sequence[Token], Sequence[Token]]:
    """Return the tokens in the first brackets, and the tokens after them."""
    depth, start = 0, None
    for index, token in enumerate(tokens):
        if token.word == "(":
            depth += 1
            start = index + 1 if start is None else start
        elif token.word == ")":
            depth -= 1
            if depth == 0:
                return tokens[start:index], tokens[index + 1 :]
    return (), tokens


def _split_at_commas(tokens: Sequence[Token]) -> Iterator[list[Token]]:
    """Split tokens at commas that are not in brackets."""
    part, depth = list[Token](), 0
    for token in tokens:
        depth += (token.word == "(") - (token.word == ")")
        if token.word == "," and depth == 0:
            yield part
            part = []
        else:
            part.append(token)
    if part:
        yield part


def _comment_in(tokens: Sequence[Token]) -> str | None:
    """Return the text after the word COMMENT."""
    rests = (tokens[index + 1 :] for index, token in enumerate(tokens) if token.word == "COMMENT")
    texts = (token.text for rest in rests for token in rest[:2] if token.is_string)
    return next(texts, None)


def _parse_type(words: Sequence[Token]) -> Written:
    """Return a type from its words outside brackets and the numbers within."""
    name, numbers, depth, sign = list[str](), list[str](), 0, ""
    for token in words:
        depth += token.word == "("
        if depth == 0:
            name.append(token.text)
        elif token.word.isdigit() or token.word == "*":
            numbers.append(sign + token.word)
        sign = "-" if token.word == "-" else ""
        depth -= token.word == ")"
    return written(f"{' '.join(name)}({','.join(numbers)})" if numbers else " ".join(name))


def _type_text(words: Sequence[Token]) -> str:
    """Return the words of a type as text with usual spacing."""
    text = " ".join(f"'{token.text}'" if token.is_string else token.text for token in words)
    for loose, tight in ((" (", "("), ("( ", "("), (" )", ")"), (" ,", ","), (" [", "["), ("[ ", "["), (" ]", "]")):
        text = text.replace(loose, tight)
    return text.replace(" . ", ".").replace("- ", "-")
