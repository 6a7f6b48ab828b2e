"""The laws of the conformance kit, a module or a package for each port."""
