"""The memory of a process of lakeward, in processes of their own: Arrow chooses its allocator when it is loaded."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from typing import Final

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


_HOLDS_A_PIECE: Final = """
from lakeward.entrypoints.startup.process_memory import manage_memory, release_memory

manage_memory()
import pyarrow

def used():
    pages = open("/proc/self/statm").read().split()[1]
    return int(pages) * 4096

before = used()
arrays = [pyarrow.nulls(8_192, pyarrow.int64()).fill_null(number) for number in range(1_600)]
del arrays[:-1]
held = used() - before
release_memory()
print(held, used() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps what is freed in this way")
def test_released_memory_goes_back_to_the_system() -> None:
    """The last array keeps the others' memory with the process, until it is asked to release it."""
    ended = subprocess.run([sys.executable, "-c", _HOLDS_A_PIECE], capture_output=True, text=True, check=True)
    held, still_held = map(int, ended.stdout.split())
    assert held > 100_000_000
    assert still_held < held / 2
