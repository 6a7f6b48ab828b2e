"""What a crash leaves between the two commits of a new Iceberg table: one makes it, and one brings rows."""

from __future__ import annotations

from decimal import Decimal

import pytest
from project import Project
from pyiceberg.catalog import load_catalog

from lakeward.adapters.formats.iceberg.writes.change import Change
from lakeward.plugins.testing.player import Crash

pytestmark = pytest.mark.spark

D = Decimal


def test_a_table_without_a_snapshot_is_continued(project: Project, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has no snapshot: so a crash leaves it, and a first commit that lost a race."""

    def ends(*_: object) -> None:
        raise Crash("the process ends here")

    project.put("LOAD00000001.csv", "1,a,1.00\n2,b,2.00\n")
    with monkeypatch.context() as patch:
        patch.setattr(Change, "commit", ends)
        with pytest.raises(Crash):
            project.run()
    catalog = load_catalog("lake", type="sql", uri=f"sqlite:///{project.folder}/lake/catalog.db")
    assert catalog.load_table(("shop", "item")).current_snapshot() is None
    catalog.close()
    project.run()
    assert project.rows() == [(1, "a", D("1.00")), (2, "b", D("2.00"))]
