"""`docs/how-to/aws/package.md`: its releases, options and parameters are those of the command."""

from __future__ import annotations

from pages import codes, sections, tables

from lakeward.entrypoints.job_package.job_start import glue_job
from lakeward.entrypoints.job_package.releases import RELEASES, TITLES, find_release

PAGE = "docs/how-to/aws/package.md"


def test_the_releases_are_those_that_can_be_packaged_for() -> None:
    (listed,) = tables(sections(PAGE)["Releases"])
    shown = [(row["platform"], row["`--release`"], row["Python"], row["Spark"], row["machines"]) for row in listed]
    assert shown == [(TITLES[r.platform], r.name, r.python, r.line, ", ".join(r.machines)) for r in RELEASES]


def test_the_parameters_of_glue_are_those_of_its_job() -> None:
    (listed,) = tables(sections(PAGE)["Glue"])
    made = glue_job(find_release("glue", "5.1"), "iceberg", ["a.whl"], "s3://jobs", "s3://jobs/a.toml")
    shown = [codes(row["parameter"])[0] for row in listed]
    assert set(made["DefaultArguments"]) - set(shown) == {"--job-bookmark-option"}
    assert made["DefaultArguments"]["--python-modules-installer-option"] == codes(listed[1]["value"])[0]
