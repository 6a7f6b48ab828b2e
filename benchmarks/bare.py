"""The bare script: a Spark session with the given settings, and one row in a new Iceberg table."""

import sys

from pyspark.sql import SparkSession

builder = SparkSession.builder
for setting in sys.argv[1:]:
    builder = builder.config(*setting.split("=", 1))
spark = builder.getOrCreate()
spark.sql("CREATE NAMESPACE naive.shop")
spark.sql(
    "CREATE TABLE naive.shop.orders (id bigint, customer bigint, status string, city string, note string, "
    "quantity int, price decimal(12,2), discount double, is_paid boolean, ordered_on date, shipped_at timestamp, "
    "channel string) USING iceberg"
)
spark.sql(
    "INSERT INTO naive.shop.orders VALUES (1, 2, 'open', 'Bonn', 'plain', 3, 9.99BD, 0.1D, true, "
    "DATE'2026-01-01', TIMESTAMP'2026-01-01 12:00:00', 'web')"
)
print("committed", flush=True)
