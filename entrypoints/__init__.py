"""How lakeward is started: the command line, jobs of platforms, functions of Lambda, and programs."""
