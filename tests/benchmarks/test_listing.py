"""The benchmark of listings finds the same files both ways, and from the mark on asks for one page."""

from listing import NEW, measure


def test_from_the_mark_on_the_new_files_are_one_page() -> None:
    measured = measure(5_000)
    assert {name: found.requests for name, found in measured.items()} == {"everything": 6, "from the mark on": 1}
    assert {found.found for found in measured.values()} == {NEW}
