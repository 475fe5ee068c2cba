"""The command line: one module per command, and the only place that connects the packages.

Modules here import other packages inside functions, so that `kaput --help` is fast.
"""
