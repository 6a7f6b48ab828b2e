"""A prefix of a bucket: what S3 refuses to delete is not taken for removed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pytest
from buckets import Buckets

from lakeward.adapters.sources.staging.prefix import StagingPrefix
from lakeward.core.errors import ConfigError, StoreUnreachable

URL = "s3://shop/staging"


@dataclass
class Refusing:
    """A client of an S3 that answers 200, and refuses to delete some objects."""

    code: str
    keys: Sequence[str]
    asked: list[Any] = field(default_factory=list)

    def delete_objects(self, **asked: Any) -> Any:
        self.asked.append(asked)
        errors = [{"Key": key, "Code": self.code, "Message": "not today"} for key in self.keys]
        return {"ResponseMetadata": {"HTTPStatusCode": 200}} | ({"Errors": errors} if errors else {})


def test_an_object_that_may_not_be_deleted_is_an_error() -> None:
    prefix = StagingPrefix(URL, Refusing("AccessDenied", ["staging/b", "staging/c"]))
    with pytest.raises(ConfigError, match=r"^s3://shop/staging/b: access is denied\n") as raised:
        prefix.remove(["a", "b", "c"])
    assert raised.value.found == "S3 says AccessDenied: not today (DeleteObjects)"


@pytest.mark.parametrize("code", ["SlowDown", "InternalError"])
def test_a_transient_refusal_is_an_error_of_its_own_and_ends_the_requests(code: str) -> None:
    client = Refusing(code, ["staging/0"])
    with pytest.raises(StoreUnreachable):
        StagingPrefix(URL, client).remove([str(number) for number in range(1001)])
    assert len(client.asked) == 1


def test_all_objects_are_removed_a_thousand_at_a_time() -> None:
    client = Refusing("", [])
    StagingPrefix(URL, client).remove([str(number) for number in range(1001)])
    assert [len(asked["Delete"]["Objects"]) for asked in client.asked] == [1000, 1]


def test_what_is_not_there_is_removed(s3: Buckets) -> None:
    bucket = s3.make()
    s3.put(f"s3://{bucket}/staging/a", "a")
    StagingPrefix(f"s3://{bucket}/staging", s3.client).remove(["a", "b"])
    assert s3.keys(bucket) == []
