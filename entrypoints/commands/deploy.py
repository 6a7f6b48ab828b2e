"""`lakeward deploy`: render a CloudFormation template of a pipeline on AWS."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import typer

from lakeward.adapters.aws.s3.access import is_url
from lakeward.core.errors import ConfigError
from lakeward.core.text.numbers import format_count
from lakeward.entrypoints.settings.configuration import load
from lakeward.entrypoints.startup.context import DEFAULT_FILE, AsJson, Debug, start_logging
from lakeward.entrypoints.views import documents, terminal
from lakeward.entrypoints.views.safe_text import plain

HELP = """Write what a pipeline needs on AWS: buckets, queue, jobs, state machine, roles, alarms, and DMS.

Nothing is created on AWS: the files are for CloudFormation. docs/how-to/aws/deploy.md explains the steps.
"""

RENDER = """Write the CloudFormation template of a pipeline, and the code of its functions.

Values of the settings are in the template; values that differ by account are parameters. The same settings and
package give the same files. With `--to -` the template is printed, and nothing else is written.

Example: [bold]lakeward deploy render --platform glue --package build/job --to build/deploy[/]
"""

TEMPLATE: Final = "template.json"
_POLL: Final = 60
_UNMEASURED: Final = (
    "The alarms on lag, held keys and failures will never be raised: runs write no metrics. "
    'Set `format = "cloudwatch"` under [metrics].'
)

Platform = Annotated[Literal["glue", "emr-serverless"], typer.Option("--platform", help="Where the jobs run.")]
Package = Annotated[
    str, typer.Option("--package", help="What `lakeward package` wrote: its folder, or s3://bucket/prefix.")
]
To = Annotated[str, typer.Option("--to", help="The folder to write into, or `-` for standard output.")]
SettingsFile = Annotated[
    str,
    typer.Option(
        "--settings",
        "-c",
        help="The settings file, or the address of a settings store, where the job then finds them as well.",
        envvar="LAKEWARD_CONFIG",
        show_default=DEFAULT_FILE,
    ),
]
DmsSide = Annotated[
    Literal["make", "existing", "none"] | None,
    typer.Option(
        "--dms",
        help="Endpoints and task of DMS: create them (`make`), use an `existing` task, or `none`.",
        show_default="make for the source dms, else none",
    ),
]

Poll = Annotated[
    int,
    typer.Option(
        "--poll",
        min=10,
        max=3600,
        help="Seconds between two polls: fewer give fresher tables, more cost less.",
    ),
]


def render(
    platform: Platform,
    package: Package,
    to: To,
    settings: SettingsFile = DEFAULT_FILE,
    dms: DmsSide = None,
    poll: Poll = _POLL,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Render the template and the code of the functions."""
    # These modules import Spark, which would slow down the help of other commands.
    from lakeward.entrypoints.deployment.packaged_job import read_package  # noqa: PLC0415
    from lakeward.entrypoints.deployment.pipeline_settings import read_pipeline  # noqa: PLC0415
    from lakeward.entrypoints.deployment.resources.functions import name_of_archive  # noqa: PLC0415
    from lakeward.entrypoints.deployment.template import template, text_of  # noqa: PLC0415

    start_logging("off", debug=debug)
    _check_place(to, package, as_json=as_json)
    pipeline = read_pipeline(load(settings), settings)
    packaged = read_package(package, platform)
    side = dms or ("make" if pipeline.source_kind == "dms" else "none")
    content = template(pipeline, packaged, side, poll)
    if pipeline.unmeasured:
        terminal.console(stderr=True).print(plain(_UNMEASURED), soft_wrap=True)
    if to == "-":
        sys.stdout.write(text_of(content))
        return 0
    folder, archive = Path(to), name_of_archive()
    _write(folder, archive, text_of(content))
    if as_json:
        files = {"template": str(folder / TEMPLATE), "functions": str(folder / archive)}
        warnings = [_UNMEASURED] if pipeline.unmeasured else []
        document = {"platform": platform, "dms": side, **files, "warnings": warnings, "exit_code": 0}
        documents.emit("deploy render", document)
    else:
        _report(folder, archive, content)
    return 0


def _check_place(to: str, package: str, *, as_json: bool) -> None:
    """Raise ConfigError for a place that the template cannot be written to."""
    if to == "-" and as_json:
        raise ConfigError(
            "--to - and --json both write to standard output",
            found="--to - prints the template, --json a document about its files",
            todo="Leave --json out for the template, or name a folder with --to.",
        )
    if to == "-" or is_url(package):
        return
    package_folder = Path(package).resolve()
    if Path(to).resolve().is_relative_to(package_folder):
        raise ConfigError(
            "--to names the folder of the package, or a folder in it",
            found=f"the package is in {package_folder}",
            todo="Name another folder with --to: `lakeward package` refuses a folder that has other files.",
        )


def _write(folder: Path, archive: str, text: str) -> None:
    from lakeward.entrypoints.deployment.lambda_package import write_lambda_zip  # noqa: PLC0415  # as above

    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / TEMPLATE).write_text(text, "utf-8", newline="\n")
        write_lambda_zip(folder / archive)
    except OSError as error:
        raise ConfigError(f"{folder} cannot be written", found=str(error), todo="Name another folder.") from error


def _report(folder: Path, archive: str, content: Mapping[str, Any]) -> None:
    out = terminal.console()
    counts = (
        format_count(len(content["Resources"]), "resource"),
        format_count(len(content["Parameters"]), "parameter"),
    )
    out.print(plain(f"{folder / TEMPLATE}: {counts[0]}, {counts[1]}"), soft_wrap=True)
    out.print(
        plain(f"{folder / archive}: upload it to the folder of the package before you create the stack."),
        soft_wrap=True,
    )
    required_parameters = [name for name, parameter in content["Parameters"].items() if "Default" not in parameter]
    if required_parameters:
        out.print(plain(f"Parameters that must be given: {', '.join(required_parameters)}"), soft_wrap=True)


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    group = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode="rich")
    group.command("render", help=RENDER)(render)
    app.add_typer(group, name="deploy")
