"""The least that starts Spark with the same jars and commits one row to an Iceberg table; bare.py FOLDER."""

from __future__ import annotations

import os
import sys

from pyspark.sql import SparkSession

from lakeward.adapters.spark.jars import cache, locked

folder = sys.argv[1]
os.makedirs(folder)
jars = os.pathsep.join(str(cache() / jar.file) for jar in locked({"iceberg", "sqlite"}))
spark = (
    SparkSession.builder.master("local[*]")
    .config("spark.driver.extraClassPath", jars)
    .config("spark.driver.memory", "1g")
    .config("spark.ui.enabled", "false")
    .config("spark.sql.catalog.lake", "org.apache.iceberg.spark.SparkCatalog")
    .config("spark.sql.catalog.lake.type", "jdbc")
    .config("spark.sql.catalog.lake.uri", f"jdbc:sqlite:{folder}/catalog.db")
    .config("spark.sql.catalog.lake.jdbc.schema-version", "V1")
    .config("spark.sql.catalog.lake.warehouse", f"file://{folder}")
    .getOrCreate()
)
spark.sql("CREATE NAMESPACE lake.shop")
spark.sql("CREATE TABLE lake.shop.item (id BIGINT, name STRING) USING iceberg")
spark.sql("INSERT INTO lake.shop.item VALUES (1, 'a')")
spark.stop()
