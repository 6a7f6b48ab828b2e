"""Tables behind a REST catalog: Spark and PyIceberg ask it both, and it may not answer."""

from __future__ import annotations

from decimal import Decimal

import pytest
from project import Project
from pyiceberg.catalog import load_catalog
from rest_catalog import rest_catalog

pytestmark = [pytest.mark.spark, pytest.mark.long]

D = Decimal


def test_a_table_behind_a_rest_catalog_is_made_changed_and_taken_back(project: Project) -> None:
    with rest_catalog(project.folder) as uri:
        project.configure(target=f'catalog = "rest"\ncatalog_properties = {{ uri = "{uri}" }}')
        project.put("LOAD00000001.csv", "1,a,1.00\n2,b,2.00\n3,c,3.00\n")
        project.run()
        project.put("20261121-100000000.csv", "U,2,x,2.00\nD,3,c,3.00\nI,5,e,5.00\nI,6,f,much\n")
        (run,) = project.run(3).values()
        assert run["counts"]["quarantined"] == 1
        (status,) = project.call("status", "--json").document["tables"]
        assert (status["batch"], status["rows"]) == (2, 3)
        lake = load_catalog("lake", type="rest", uri=uri)
        rows = lake.load_table(("shop", "item")).scan(selected_fields=("id", "name", "price")).to_arrow()
        assert sorted(tuple(row.values()) for row in rows.to_pylist()) == [
            (1, "a", D("1.00")),
            (2, "x", D("2.00")),
            (5, "e", D("5.00")),
        ]
        (before,) = project.call("rollback", "shop.item", "--json").document["versions"]
        assert project.call("rollback", "shop.item", "--to", before["name"], "--json").code == 0
        assert lake.load_table(("shop", "item")).scan().to_arrow().num_rows == 3
        assert project.call("maintain", "--json").code == 0
    assert "the catalog cannot be read" in project.fails()
