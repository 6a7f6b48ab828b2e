"""The allocator of a process of lakeward, in processes of their own: it is chosen when Arrow is loaded."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

_MANAGE = "from lakeward.entrypoints.startup.process_memory import manage_memory; manage_memory()"
_IMPORT = "import pyarrow"


@pytest.mark.parametrize(
    ("statements", "named", "allocator"),
    [
        pytest.param([_MANAGE, _IMPORT], None, "system", id="before Arrow is loaded"),
        pytest.param([_IMPORT, _MANAGE], None, "system", id="after Arrow is loaded"),
        pytest.param([_IMPORT], None, "mimalloc", id="a program that imports lakeward"),
        pytest.param([_MANAGE, _IMPORT], "mimalloc", "mimalloc", id="named by the environment"),
        pytest.param([_IMPORT, _MANAGE], "mimalloc", "mimalloc", id="named by the environment, after that"),
    ],
)
def test_arrow_allocates_from_the_system(statements: list[str], named: str | None, allocator: str) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "ARROW_DEFAULT_MEMORY_POOL"}
    code = "; ".join([*statements, "print(pyarrow.default_memory_pool().backend_name)"])
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env=environment | ({} if named is None else {"ARROW_DEFAULT_MEMORY_POOL": named}),
        capture_output=True,
        text=True,
        check=True,
    )
    assert ended.stdout.strip() == allocator
