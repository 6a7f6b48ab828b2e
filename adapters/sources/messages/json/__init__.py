"""Values of JSON: how messages write them, and how they become values of a type."""
