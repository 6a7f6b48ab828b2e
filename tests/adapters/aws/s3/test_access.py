"""Access to S3: the configuration of AWS, and its form for each reader and writer."""

from __future__ import annotations

from pathlib import Path

import pytest
from buckets import Buckets

from lakeward.adapters.aws.s3.access import Access, find_access, normal_url
from lakeward.adapters.spark.session.s3a import s3a_settings
from lakeward.core.errors import ConfigError


def test_a_configured_endpoint_reaches_every_reader_and_is_addressed_by_path(s3: Buckets) -> None:
    s3_access = find_access()
    assert (s3_access.region, s3_access.endpoint, s3_access.by_path) == ("eu-central-1", s3.endpoint, True)
    assert s3a_settings(s3_access)["spark.hadoop.fs.s3a.endpoint"] == s3.endpoint
    assert s3a_settings(s3_access)["spark.hadoop.fs.s3a.path.style.access"] == "true"
    assert s3_access.iceberg_properties["s3.endpoint"] == s3.endpoint
    assert s3_access.iceberg_properties["s3.path-style-access"] == "true"
    assert s3_access.iceberg_properties["s3.force-virtual-addressing"] == "false"
    options = s3_access.object_store_options("shop")
    assert (options["aws_endpoint_url_s3"], options["aws_allow_http"]) == (s3.endpoint, "true")


def test_the_default_endpoint_is_that_of_aws(s3: Buckets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_ENDPOINT_URL_S3")
    s3_access = find_access()
    assert (s3_access.region, s3_access.endpoint, s3_access.by_path) == ("eu-central-1", None, False)
    assert "aws_endpoint_url_s3" not in s3_access.object_store_options("shop")
    assert not [
        name for name in {**s3a_settings(s3_access), **s3_access.iceberg_properties} if name.endswith("endpoint")
    ]


def test_a_profile_sets_region_and_addressing(s3: Buckets, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "config").write_text(
        "[profile shop]\nregion = eu-west-1\nendpoint_url = https://store.example:9000\n"
        "s3 =\n  addressing_style = virtual\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_PROFILE", "shop")
    for name in ("AWS_ENDPOINT_URL_S3", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name)
    s3_access = find_access()
    assert (s3_access.region, s3_access.endpoint, s3_access.by_path) == (
        "eu-west-1",
        "https://store.example:9000",
        False,
    )
    assert s3_access.iceberg_properties["s3.force-virtual-addressing"] == "true"
    options = s3_access.object_store_options("lake")
    assert options["aws_endpoint_url_s3"] == "https://lake.store.example:9000", (
        "delta-rs puts no bucket before a host"
    )
    assert (options["aws_virtual_hosted_style_request"], options["aws_allow_http"]) == ("true", "false")


def test_the_default_region_is_us_east_1(s3: Buckets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_DEFAULT_REGION")
    assert find_access().region == "us-east-1"


def test_an_unknown_profile_is_an_error(s3: Buckets, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    with pytest.raises(ConfigError) as raised:
        find_access()
    assert "nobody" in str(raised.value.found)


def test_no_configuration_shows_a_secret(s3: Buckets) -> None:
    s3_access = find_access()
    options = (s3a_settings(s3_access), s3_access.iceberg_properties, s3_access.object_store_options("shop"))
    assert "secret word" not in f"{s3_access} {options}"
    assert s3_access == Access("eu-central-1", s3.endpoint, by_path=True)


@pytest.mark.parametrize(
    ("url", "one"),
    [
        ("s3://shop", "s3://shop"),
        ("s3://shop/", "s3://shop"),
        ("s3a://shop/in/here/", "s3://shop/in/here"),
        ("s3n://shop/in here", "s3://shop/in here"),
    ],
)
def test_a_url_has_one_normal_form(url: str, one: str) -> None:
    assert normal_url(url) == one


@pytest.mark.parametrize(
    "url",
    ["s3://", "s3:///in", "s3://Shop/in", "s3://a", "s3://shop/a//b", "s3://shop/../b", "s3://shop/{x}", "in/"],
)
def test_an_invalid_url_of_a_bucket_is_refused(url: str) -> None:
    with pytest.raises(ConfigError, match="is no URL of a bucket"):
        normal_url(url)
