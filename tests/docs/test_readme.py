"""The README is short, and its figures are those of other pages."""

from __future__ import annotations

from pages import fences, sections, tables, text


def test_it_is_two_screens_long() -> None:
    assert len(text("README.md").splitlines()) <= 105


def test_its_figures_are_those_of_the_benchmarks() -> None:
    (page_rows,) = tables(sections("README.md")["How fast it is"])
    figures = sections("docs/explanation/benchmarks.md", level=3).values()
    measured = {
        (row["naive or bare"], row["lakeward"], row["ratio"])
        for figure in figures
        for table in tables(figure)
        for row in table
        if "naive or bare" in row
    }
    assert {(row["naive"], row["lakeward"], row["ratio"]) for row in page_rows} <= measured


def test_the_counts_of_its_recording_add_up() -> None:
    (recorded,) = fences("README.md", "text")
    rows = [line.split() for line in recorded.content.splitlines() if line.startswith("shop.")]
    assert all(there == here and differences == "0" for _, there, here, differences in rows)
    assert f"{sum(int(row[1]) for row in rows)} rows, compared cell by cell" in recorded.content
