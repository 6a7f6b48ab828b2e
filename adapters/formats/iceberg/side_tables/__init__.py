"""The tables beside an Iceberg table, read and written by PyIceberg."""
