"""What finds the rows of a table in the settings: a key, or images; and the words where images would not."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import Command
from projects import DMS, MEMORY, write

from lakeward.core.dimension import ORDERED, Lateness, Match, TableName, Within
from lakeward.core.errors import ConfigError
from lakeward.entrypoints.settings.configuration import load

NAME = TableName("shop", "log")
TABLE = """
[tables."shop.log"]
match = "image"
columns = { id = "int" }
"""


def match(folder: Path, more: str = "", lateness: Lateness = ORDERED) -> Match:
    return load(write(folder, MEMORY, TABLE + more)).dimension(NAME, lateness).match


def test_rows_are_found_by_their_images_where_it_is_said(tmp_path: Path) -> None:
    assert match(tmp_path) is Match.IMAGE
    assert match(tmp_path, 'lateness = "ordered"', Within(1)) is Match.IMAGE
    bare = TABLE.replace('match = "image"\n', "")
    assert load(write(tmp_path, MEMORY, bare)).dimension(NAME).match is Match.KEY


@pytest.mark.parametrize(
    ("more", "found"),
    [
        ('key = ["id"]', "its key is id"),
        ('key = ["id"]\nmode = "history"', "its key is id"),
        ('rules = [{ rule = "cast", column = "id", type = "bigint" }]', "it has rules for its columns"),
        ('lateness = "24h"', "its changes may be late"),
    ],
)
def test_images_are_refused_where_they_find_no_row_or_another(tmp_path: Path, more: str, found: str) -> None:
    with pytest.raises(ConfigError) as refused:
        match(tmp_path, more)
    assert found in str(refused.value.found)
    assert refused.value.todo


def test_images_are_refused_where_the_source_lets_changes_be_late(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match='`match = "image"` is not for this table'):
        match(tmp_path, lateness=Within(1))


@pytest.mark.parametrize(
    "command",
    [["status"], ["status", "--schema"], ["plan"], ["run", "--once"], ["quarantine", "list"]],
    ids=" ".join,
)
def test_every_command_refuses_images_where_the_source_lets_changes_be_late(
    lakeward: Command, tmp_path: Path, command: list[str]
) -> None:
    """The settings are right as they are read: how late changes may be is what the source says."""
    source = DMS.replace('"landing/"', '"landing/"\ntimestamp_column = "at"\nbefore_image_prefix = "BI_"')
    assert load(write(tmp_path, source, TABLE)).depends_on_source
    (tmp_path / "landing").mkdir()
    ended = lakeward(*command, "--json")
    said = " ".join((ended.out + ended.err).split())
    assert ended.code == 1, said
    assert '`match = \\"image\\"` is not for this table' in said
    assert "its changes may be late" in said


def test_what_says_its_lateness_is_known_without_the_source(tmp_path: Path) -> None:
    assert not load(write(tmp_path, MEMORY, TABLE, 'lateness = "ordered"')).depends_on_source
