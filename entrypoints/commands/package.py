"""`lakeward package`: write the package of a job of AWS Glue or EMR into a folder or a bucket."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from lakeward.adapters.aws.s3.access import find_access, is_url, normal_url, refuse_other_scheme
from lakeward.adapters.spark.session.compatibility import line
from lakeward.core.errors import ConfigError
from lakeward.core.text.numbers import format_count
from lakeward.entrypoints.job_package import job_start
from lakeward.entrypoints.job_package.assembly import Order, build
from lakeward.entrypoints.job_package.delivery import replace_folder, upload
from lakeward.entrypoints.job_package.releases import TITLES, find_release, newest_release
from lakeward.entrypoints.job_package.table_formats import DEFAULT_FORMAT, FormatName
from lakeward.entrypoints.startup.context import AsJson, Debug
from lakeward.entrypoints.views import documents, terminal
from lakeward.entrypoints.views.safe_text import plain

HELP = """Write the package of a job of AWS Glue or EMR into a folder or a bucket.

The same lakeward, versions and wheels always give the same files, byte by byte.
"""

GLUE = """Write a job of AWS Glue: its script, wheels for its Python, and the arguments to start it with.

The wheels are lakeward, its dependencies in the tested versions, and yours. Spark and boto3 are those of Glue.
`job.json` has the job in the form of `aws glue create-job`.

Example: [bold]lakeward package glue --to s3://shop-jobs/lakeward --settings s3://shop-jobs/lakeward.toml[/]
"""

EMR = """Write a job of EMR, on a cluster or serverless: its script, wheels, and an environment made of them.

Spark unpacks the environment on each machine, so nothing is installed there. `job.json` has the job in the form of
`aws emr-serverless start-job-run` and of `aws emr add-steps`.

Example: [bold]lakeward package emr --release emr-spark-8.1.0 --arch aarch64 --to build/job[/]
"""

To = Annotated[str, typer.Option("--to", help="A folder without other files, or s3://bucket/prefix.")]
ReleaseName = Annotated[
    str | None,
    typer.Option(
        "--release",
        help="The release, as 5.1 of Glue or emr-7.14.0.",
        show_default="the newest with the Spark that is installed here",
    ),
]
Format = Annotated[FormatName, typer.Option("--format", help="The `kind` of the tables in the settings.")]
Extras = Annotated[
    list[str] | None, typer.Option("--extra", help="Further dependencies, `kafka` or `msk`; may be repeated.")
]
Wheels = Annotated[
    list[Path] | None,
    typer.Option("--wheel", help="The wheel of a plugin, or one that replaces a locked version; may be repeated."),
]
Settings = Annotated[
    str,
    typer.Option("--settings", help="The URL of the settings file, which is put into the arguments of the job."),
]
Boto3 = Annotated[
    bool,
    typer.Option("--with-boto3", help="Include boto3: the one of Glue may be older than 1.35, which is needed."),
]
Arch = Annotated[Literal["x86_64", "aarch64"], typer.Option("--arch", help="The machines that it runs on.")]

_NO_SETTINGS = "s3://BUCKET/lakeward.toml"


def glue(
    to: To,
    release: ReleaseName = None,
    kind: Format = DEFAULT_FORMAT,
    extras: Extras = None,
    wheels: Wheels = None,
    settings: Settings = _NO_SETTINGS,
    with_boto3: Boto3 = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Package for Glue, whose machines are all of one kind."""
    content = _package("glue", to, release, "x86_64", kind, extras, wheels, settings, with_boto3=with_boto3)
    return _report("package glue", content, as_json=as_json)


def emr(
    to: To,
    release: ReleaseName = None,
    arch: Arch = "x86_64",
    kind: Format = DEFAULT_FORMAT,
    extras: Extras = None,
    wheels: Wheels = None,
    settings: Settings = _NO_SETTINGS,
    as_json: AsJson = False,
    debug: Debug = False,
) -> int:
    """Package for EMR."""
    content = _package("emr", to, release, arch, kind, extras, wheels, settings)
    return _report("package emr", content, as_json=as_json)


def _package(
    platform: str,
    to: str,
    release: str | None,
    arch: str,
    kind: str,
    extras: Sequence[str] | None,
    wheels: Sequence[Path] | None,
    settings: str,
    *,
    with_boto3: bool = False,
) -> Mapping[str, Any]:
    """Build a package at `to`; errors of the arguments are raised before anything is fetched."""
    if not to.strip():
        raise ConfigError("--to is empty", todo="Name a folder of its own for the package, or s3://bucket/prefix.")
    refuse_other_scheme(to, "--to")
    place = normal_url(to) if is_url(to) else None
    order = Order(
        release=newest_release(platform, line()) if release is None else find_release(platform, release),
        machine=arch,
        kind=kind,
        extras=extras or (),
        wheels=wheels or (),
        place=place or job_start.SOMEWHERE,
        settings=settings,
        with_boto3=with_boto3,
    )
    order.check()
    if place is None:
        folder = Path(to).absolute()
        with _waiting(order):
            manifest = replace_folder(folder, lambda fresh: build(order, fresh))
        return {"to": str(folder), "sent": None, **manifest}
    access = find_access()
    access.check(place)
    with tempfile.TemporaryDirectory() as name, _waiting(order):
        manifest = build(order, Path(name))
        sent = upload(Path(name), place, access)
    return {"to": place, "sent": sent, **manifest}


def _waiting(order: Order) -> Any:
    title = f"{TITLES[order.release.platform]} {order.release.name}"
    return terminal.console(stderr=True).status(f"Packaging for {title} …")


def _report(command: str, content: Mapping[str, Any], *, as_json: bool) -> int:
    if as_json:
        documents.emit(command, {**content, "exit_code": 0})
        return 0
    out = terminal.console()
    count = sum(name.endswith(".whl") for name in content["files"])
    title = f"{TITLES[content['platform']]} {content['release']}"
    out.print(
        plain(
            f"{content['to']}: {format_count(count, 'wheel')} for {title} "
            f"(Python {content['python']}, Spark {content['spark']}, {content['arch']})"
        ),
        soft_wrap=True,
    )
    if content["sent"] is not None:
        out.print(
            plain(f"{format_count(len(content['sent']), 'file')} sent; the others were there."), soft_wrap=True
        )
    out.print(plain(f"job.json has the job as AWS takes it: {', '.join(content['jobs'])}."), soft_wrap=True)
    return 0


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    group = typer.Typer(help=HELP, no_args_is_help=True, rich_markup_mode="rich")
    group.command("glue", help=GLUE)(glue)
    group.command("emr", help=EMR)(emr)
    app.add_typer(group, name="package")
