"""The demo: a changing database, the files that DMS would write, and a final comparison with the lake."""
