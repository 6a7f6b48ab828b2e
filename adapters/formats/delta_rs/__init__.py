"""Delta tables read and written with delta-rs: the side tables of Delta and Hudi tables."""
