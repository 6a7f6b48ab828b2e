"""What of a policy no Hudi table can keep is refused before anything is looked at."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lakeward.adapters.formats.hudi.operations.maintenance import HudiMaintenance
from lakeward.adapters.formats.hudi.options import TableOptions
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.core.ports import MaintenancePolicy, MaintenanceReport


@pytest.mark.parametrize("is_dry", [True, False])
def test_no_more_commits_stay_than_a_write_of_hudi_leaves(is_dry: bool) -> None:
    """Refused before anything is looked at; with properties it is for these to say."""
    table: Any = SimpleNamespace(dimension=SimpleNamespace(name=TableName("shop", "item")), options=TableOptions())
    with pytest.raises(ConfigError, match="more than a write of Hudi leaves") as refused:
        HudiMaintenance(table).maintain(MaintenancePolicy(keep_last=11), is_dry=is_dry)
    assert "what the last 10 do not need" in str(refused.value.found)
    table.timeline = SimpleNamespace(is_there=False)
    assert HudiMaintenance(table).maintain(MaintenancePolicy(keep_last=10), is_dry=is_dry) == MaintenanceReport()
    table.options = TableOptions(properties={"hoodie.clean.commits.retained": "100"})
    assert HudiMaintenance(table).maintain(MaintenancePolicy(keep_last=100), is_dry=is_dry) == MaintenanceReport()
