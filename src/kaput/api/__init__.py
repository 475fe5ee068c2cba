"""kaput from Python: running, analyzing and reading runs (docs/PYTHON.md). The command line builds on it."""
