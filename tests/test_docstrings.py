"""What the examples in docstrings say is true."""

from __future__ import annotations

import doctest
from importlib import import_module

import pytest
from repository import modules


def names() -> list[str]:
    found = [path for path in modules() if "_root" not in path.parts]
    return ["lakeward." + ".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in found]


@pytest.mark.parametrize("name", names())
def test_examples_are_true(name: str) -> None:
    assert doctest.testmod(import_module(name)).failed == 0
