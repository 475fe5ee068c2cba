"""The Python API: running, analyzing and reading runs (docs/PYTHON.md). The command line uses it."""
