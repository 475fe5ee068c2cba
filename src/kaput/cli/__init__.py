"""The command line: one file a verb, and the only place that wires packages together.

Modules here import the rest inside their functions, so that `kaput --help` answers at once.
"""
