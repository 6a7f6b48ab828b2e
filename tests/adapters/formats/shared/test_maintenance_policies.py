"""What a maintenance policy asks of a format that cannot do it is refused before anything is read."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from lakeward.adapters.formats.delta.operations.maintenance import DeltaMaintenance
from lakeward.adapters.formats.hudi.operations.maintenance import HudiMaintenance
from lakeward.adapters.formats.hudi.options import TableOptions
from lakeward.core.dimension import TableName
from lakeward.core.errors import ConfigError
from lakeward.core.ports import MaintenancePolicy, MaintenanceReport

both_ways = pytest.mark.parametrize("is_dry", [True, False])


def table(**more: Any) -> Any:
    return SimpleNamespace(dimension=SimpleNamespace(name=TableName("shop", "item")), **more)


@both_ways
def test_delta_keeps_no_number_of_versions(is_dry: bool) -> None:
    with pytest.raises(ConfigError, match="`keep_last` is not for Delta tables") as refused:
        DeltaMaintenance(table()).maintain(MaintenancePolicy(keep_last=3), is_dry=is_dry)
    assert "3 versions are to stay" in str(refused.value.found)


@both_ways
def test_hudi_keeps_as_many_commits_as_each_write_leaves_or_its_property_says(is_dry: bool) -> None:
    found = table(options=TableOptions(), timeline=SimpleNamespace(is_there=False))
    with pytest.raises(ConfigError, match="more than a write of Hudi leaves") as refused:
        HudiMaintenance(found).maintain(MaintenancePolicy(keep_last=11), is_dry=is_dry)
    assert "what the last 10 do not need" in str(refused.value.found)
    assert HudiMaintenance(found).maintain(MaintenancePolicy(keep_last=10), is_dry=is_dry) == MaintenanceReport()
    found.options = TableOptions(properties={"hoodie.clean.commits.retained": "100"})
    assert HudiMaintenance(found).maintain(MaintenancePolicy(keep_last=100), is_dry=is_dry) == MaintenanceReport()
