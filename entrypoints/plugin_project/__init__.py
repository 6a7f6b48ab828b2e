"""The project that `lakeward plugins new` writes, and its templates."""
