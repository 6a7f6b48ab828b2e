"""The models of AWS services, which botocore reads: once for all clients of the tests."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import botocore.session
import pytest
from botocore.loaders import Loader


@pytest.fixture(scope="session", autouse=True)
def shared_models() -> Iterator[None]:
    """Give all sessions of botocore one loader.

    Each session has its own by default, and parses megabytes of JSON for its first client: a quarter of a second.
    """
    module: Any = botocore.session
    make = cache(module.create_loader)

    def loader(search_path_string: str | None = None) -> Loader:
        shared: Loader = make(search_path_string)
        shared.search_paths[:] = dict.fromkeys(shared.search_paths)  # boto3 adds a folder with each session
        return shared

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "create_loader", loader)
        yield
