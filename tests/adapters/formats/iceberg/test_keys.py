"""Keys of every type that a range is found of: the row that stands is found, wherever the machine is."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from project import Project

pytestmark = pytest.mark.spark


@pytest.fixture(params=[pytest.param("UTC", marks=pytest.mark.long), "America/New_York"])
def zone(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    monkeypatch.setenv("TZ", request.param)
    time.tzset()
    yield request.param
    monkeypatch.undo()
    time.tzset()


KEYS = {
    "int": ["-5", "2147483647"],
    "bigint": ["-9223372036854775808", "9223372036854775807"],
    "decimal(38,10)": ["-1234567890123456789012345678.0123456789", "0.0000000001"],
    "date": ["0001-01-01", "9999-12-31"],
    "timestamp": ["1969-12-31 23:59:59.999999", "2026-10-25 00:30:00"],
    "timestamp_ntz": ["2026-03-29 02:30:00", "2026-07-01 12:00:00"],
    "double": ["-0.5", "1e300"],
    "boolean": ["true", "false"],
    "string": ["", "Zoë"],
    "binary": ["", "cafe"],
}


def test_a_key_of_any_type_is_found_again(project: Project, zone: str) -> None:
    tables = [
        f'[tables."shop.t{n}"]\nkey = ["k"]\ncolumns = {{ k = "{type_}", v = "string" }}\n'
        for n, type_ in enumerate(KEYS)
    ]
    project.configure("\n".join(tables), source="max_files = 1")
    for n, (first, second) in enumerate(KEYS.values()):
        project.put("LOAD00000001.csv", f"{first},a\n{second},b\n", f"shop/t{n}")
        project.put("20261121-100000000.csv", f"D,{first},a\nU,{second},c\n", f"shop/t{n}")
    project.run()
    for n, type_ in enumerate(KEYS):
        assert project.rows(f"t{n}", columns=("v",)) == [("c",)], type_
