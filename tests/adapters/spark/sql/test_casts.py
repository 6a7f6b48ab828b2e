"""What each type takes of a text, and what it does not: nothing is bent to fit."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from lakeward.adapters.spark.session.compatibility import from_arrow
from lakeward.adapters.spark.sql.casts import TextFormat, to_type
from lakeward.core.schema import parse_type

pytestmark = [pytest.mark.spark, pytest.mark.usefixtures("compiled")]

D = Decimal
ACCEPTED = [
    ("int", None, {"1": 1, "-2147483648": -2147483648, " 7 ": 7, "+3": 3}),
    ("bigint", None, {"9223372036854775807": 9223372036854775807}),
    ("decimal(5,2)", None, {"1.2": D("1.20"), "123.45": D("123.45"), "1.2300": D("1.23"), "-.5": D("-0.50")}),
    ("decimal(38,0)", None, {"9" * 38: D("9" * 38)}),
    ("double", None, {"1e3": 1000.0, "0e5": 0.0, "-0": -0.0, "Infinity": float("inf")}),
    ("float", None, {"1.5": 1.5}),
    ("boolean", None, {"true": True, "f": False, "1": True, "N": False}),
    ("date", None, {"2024-02-29": date(2024, 2, 29), "2024-02-29 00:00:00": date(2024, 2, 29)}),
    ("date", "d-MMM-yy", {"4-Jun-14": date(2014, 6, 4), "13-Mar-17": date(2017, 3, 13)}),
    ("timestamp_ntz", None, {"2024-01-01 10:20:30.123456": datetime(2024, 1, 1, 10, 20, 30, 123456)}),
    ("timestamp_ntz", None, {"2024-01-01T10:20:30.1234560": datetime(2024, 1, 1, 10, 20, 30, 123456)}),
    (
        "timestamp_ntz",
        "d.M.yyyy'SSSSSSS' HH:mm:ss.SSSSSSSSS",
        {
            "1.2.2024SSSSSSS 10:20:30.123456000": datetime(2024, 2, 1, 10, 20, 30, 123456),
            "1.2.2024SSSSSSS 10:20:30.5": datetime(2024, 2, 1, 10, 20, 30, 500000),
        },
    ),
    ("binary", None, {"0xCAFE": b"\xca\xfe", "cafe": b"\xca\xfe", "": b""}),
    ("binary", "base64", {"yv4=": b"\xca\xfe"}),
    ("binary", "utf-8", {"é": "é".encode()}),
    ("string", None, {"": "", " x ": " x "}),
]
REFUSED = [
    ("int", None, ["", "1.0", "1.5", "2147483648", "x", "1e3", "0x1"]),
    ("bigint", None, ["9223372036854775808", "1_000"]),
    ("decimal(5,2)", None, ["1.239", "1234.5", "1e2", "", "."]),
    ("double", None, ["1e999", "1e-999", "1d", "", "0x1p3"]),
    ("float", None, ["1e39"]),
    ("boolean", None, ["", "2", "on"]),
    ("date", None, ["2026", "2023-02-29", "2024-1-1", "2024-01-01 10:00:00", "", "01/02/2024"]),
    ("date", "d-MMM-yy", ["2014-06-04", "31-Feb-14"]),
    ("date", "d.M.yyyy", ["1.1.0000"]),
    ("timestamp_ntz", None, ["2024-01-01 10:20:30.1234567", "2024-13-01 00:00:00", "now", ""]),
    ("timestamp_ntz", "yyyy-MM-dd HH:mm:ss.SSSSSSSSS", ["2024-01-01 10:20:30.123456789"]),
    ("date", "yyyy-MM-dd HH:mm:ss.SSSSSSSSS", ["2024-01-01 00:00:00.000000001"]),
    ("timestamp", None, ["2024-01-01 25:00:00", "12:00:00", "0000-06-01", "9999-12-31 23:59:59-01"]),
    ("binary", None, ["abc", "zz"]),
    ("binary", "base64", ["y", "?"]),
]


def values(spark: SparkSession, type_: str, texts: list[str], written: TextFormat) -> list[object]:
    frame = from_arrow(spark, pa.table({"n": list(range(len(texts))), "t": pa.array(texts, pa.string())}))
    sql = to_type("t", parse_type(type_), written)
    found = frame.orderBy("n").selectExpr(f"{sql} AS value").collect()
    return [bytes(row.value) if isinstance(row.value, bytearray) else row.value for row in found]


@pytest.mark.parametrize(("type_", "pattern", "accepted"), ACCEPTED)
def test_a_value_that_fits_is_taken_exactly(
    spark: SparkSession, type_: str, pattern: str | None, accepted: dict[str, object]
) -> None:
    assert values(spark, type_, list(accepted), TextFormat(pattern)) == list(accepted.values())


@pytest.mark.parametrize(("type_", "pattern", "refused"), REFUSED)
def test_a_misfit_is_detected(spark: SparkSession, type_: str, pattern: str | None, refused: list[str]) -> None:
    assert values(spark, type_, refused, TextFormat(pattern)) == [None] * len(refused)


def test_a_time_without_a_zone_is_in_the_zone_of_the_source(spark: SparkSession) -> None:
    texts = ["2024-07-01 12:00:00", "2024-07-01 12:00:00Z", "2024-07-01 12:00:00+05:30"]
    found = values(spark, "timestamp", texts, TextFormat(None, "Europe/Berlin"))
    hours = [(10, 0), (12, 0), (6, 30)]
    assert [as_utc(moment) for moment in found] == [datetime(2024, 7, 1, h, m, tzinfo=UTC) for h, m in hours]


def test_a_time_that_its_zone_moves_out_of_the_years_is_told_apart(spark: SparkSession) -> None:
    texts = ["9999-12-31 19:00:00", "9999-12-31 18:59:59"]
    late, last = values(spark, "timestamp", texts, TextFormat(None, "America/New_York"))
    assert (late, as_utc(last)) == (None, datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC))


def as_utc(moment: object) -> datetime:
    """Spark returns points in time as local times of this machine."""
    assert isinstance(moment, datetime)
    return moment.astimezone(UTC)
