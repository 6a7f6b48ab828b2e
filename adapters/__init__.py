"""What lakeward speaks to; each module is a plugin and registers as anyone's does."""
