"""Settings of plain files that do not fit together."""

from __future__ import annotations

import pytest
from pydantic import ValidationError

from lakeward.adapters.sources.files.options import FilesOptions, FilesTableOptions


@pytest.mark.parametrize(("line", "places"), [("record", "source"), ("value", "arrival")])
def test_a_tombstone_deletes_only_by_its_arrival_and_its_key(line: str, places: str) -> None:
    """It has no place in the log, and so would be older than all; a value that is not there has no key."""
    said = {"path": "landing", "format": "debezium", "tombstones": "delete"}
    with pytest.raises(ValidationError, match="has a key alone, and no place"):
        FilesOptions.model_validate({**said, "line": line, "places": places})
    assert FilesOptions.model_validate({**said, "line": "record", "places": "arrival"}).tombstones == "delete"


@pytest.mark.parametrize("other", [{"form": "flattened"}, {"types": "schema"}])
def test_documents_are_those_of_envelopes_whose_columns_are_declared(other: dict[str, str]) -> None:
    said = {"path": "landing", "format": "debezium", "documents": "columns"}
    with pytest.raises(ValidationError, match="whose columns are declared"):
        FilesOptions.model_validate({**said, **other})
    with pytest.raises(ValidationError, match='`documents` is for `format = "debezium"` alone'):
        FilesOptions.model_validate({"path": "landing", "documents": "columns"})
    own = {**said, "line": "record", "places": "arrival", "tombstones": "delete"}
    assert not FilesOptions.model_validate(own).reads_keys


OF_ROWS = {"operation": {"column": "op", "delete": ["D"]}, "order_by": "ts", "time": "ts", "absent": "unset"}


@pytest.mark.parametrize("own", ["csv", "json", "parquet", "debezium", "dms-json"])
def test_a_table_with_another_format_of_rows_keeps_the_settings_of_rows(own: str) -> None:
    said = FilesOptions.model_validate({"path": "landing", **OF_ROWS})
    found = FilesOptions.model_validate(said.with_own(FilesTableOptions.model_validate({"format": own})))
    is_of_rows = own not in ("debezium", "dms-json")
    assert (found.operation == said.operation, found.order_by, found.time, found.absent) == (
        (True, "ts", "ts", "unset") if is_of_rows else (False, None, None, None)
    )
