"""The domain of lakeward, in plain Python.

Nothing here imports a third-party package, opens a file or knows Spark. The core
decides (`plan`), says what the decision means (`apply`), and leaves the doing to
adapters behind the protocols of `ports`.
"""
