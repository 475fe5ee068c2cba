"""The analysis in plain Spark SQL: slower, and as close to the definitions as SQL gets.

Tests hold the engine (dense/) against it. It also judges what the engine would have to keep too much of.
"""
