"""What of a policy no Delta table can keep is refused before anything is looked at."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lakeward.adapters.formats.delta.operations.maintenance import DeltaMaintenance
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.core.ports import MaintenancePolicy

TABLE: Any = SimpleNamespace(dimension=SimpleNamespace(name=TableName("shop", "item")))


@pytest.mark.parametrize("is_dry", [True, False])
def test_a_number_of_versions_that_are_to_stay_is_refused(is_dry: bool) -> None:
    with pytest.raises(ConfigError, match="`keep_last` is not for Delta tables") as refused:
        DeltaMaintenance(TABLE).maintain(MaintenancePolicy(keep_last=3), is_dry=is_dry)
    assert "3 versions are to stay" in str(refused.value.found)
