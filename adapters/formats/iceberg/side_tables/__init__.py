"""The side tables of an Iceberg table, read and written with PyIceberg."""
