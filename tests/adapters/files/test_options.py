"""Settings of plain files that do not fit together."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from lakeward.adapters.files.options import FilesOptions


@pytest.mark.parametrize(("line", "places"), [("record", "source"), ("value", "arrival")])
def test_a_tombstone_deletes_only_by_its_arrival_and_its_key(line: str, places: str) -> None:
    """It has no place in the log, and so would be older than all; a value that is not there has no key."""
    said = {"path": "landing", "format": "debezium", "tombstones": "delete"}
    with pytest.raises(ValidationError, match="has a key alone, and no place"):
        FilesOptions.model_validate({**said, "line": line, "places": places})
    assert FilesOptions.model_validate({**said, "line": "record", "places": "arrival"}).tombstones == "delete"
