"""`docs/how-to/aws/jobs.md`: the commands of jobs have the arguments of the page."""

from __future__ import annotations

from pages import codes, sections, tables

from lakeward.entrypoints.job_command import COMMANDS, RUN, WITH_SPARK, parameters_of


def test_the_commands_of_jobs_and_their_arguments_are_those_of_the_page() -> None:
    (listed,) = tables(sections("docs/how-to/aws/jobs.md")["Other commands"])
    assert {codes(row["`--command`"])[0] for row in listed} == {*COMMANDS} - {RUN}
    for row in listed:
        (command,) = codes(row["`--command`"])
        keys = [code.split()[0] for code in codes(row["its arguments"])]
        assert keys == [f"--{parameter.key}" for parameter in parameters_of(command)], command
        assert (row["Spark"] == "yes") is (command in WITH_SPARK)
