"""Operations on whole Iceberg tables."""
