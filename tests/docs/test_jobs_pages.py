"""`jobs.md` and `package.md`: commands, arguments, releases and parameters are those of the code."""

from __future__ import annotations

from pages import codes, sections, tables

from lakeward.entrypoints.job_command import COMMANDS, RUN, WITH_SPARK, parameters_of
from lakeward.entrypoints.job_package.job_start import glue_job
from lakeward.entrypoints.job_package.releases import RELEASES, TITLES, find_release

PACKAGE = "docs/how-to/aws/package.md"


def test_the_commands_of_jobs_and_their_arguments_are_those_of_the_page() -> None:
    (listed,) = tables(sections("docs/how-to/aws/jobs.md")["Other commands"])
    assert {codes(row["`--command`"])[0] for row in listed} == {*COMMANDS} - {RUN}
    for row in listed:
        (command,) = codes(row["`--command`"])
        keys = [code.split()[0] for code in codes(row["its arguments"])]
        assert keys == [f"--{parameter.key}" for parameter in parameters_of(command)], command
        assert (row["Spark"] == "yes") is (command in WITH_SPARK)


def test_the_releases_are_those_that_can_be_packaged_for() -> None:
    (listed,) = tables(sections(PACKAGE)["Releases"])
    columns = ("platform", "`--release`", "Python", "Spark", "machines")
    page_values = [tuple(row[column] for column in columns) for row in listed]
    assert page_values == [(TITLES[r.platform], r.name, r.python, r.line, ", ".join(r.machines)) for r in RELEASES]


def test_the_parameters_of_glue_are_those_of_its_job() -> None:
    (listed,) = tables(sections(PACKAGE)["Glue"])
    job = glue_job(find_release("glue", "5.1"), "iceberg", ["a.whl"], "s3://jobs", "s3://jobs/a.toml")
    page_values = [codes(row["parameter"])[0] for row in listed]
    assert set(job["DefaultArguments"]) - set(page_values) == {"--job-bookmark-option"}
    assert job["DefaultArguments"]["--python-modules-installer-option"] == codes(listed[1]["value"])[0]
