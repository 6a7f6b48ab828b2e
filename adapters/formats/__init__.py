"""Table formats: Apache Iceberg, Delta Lake, Apache Hudi, and the code that they share."""
