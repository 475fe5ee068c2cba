"""The first two filters in Spark's Structured Streaming (filters.py), and logs as micro-batches (replay.py).

The only part of kaput.dedup that imports pyspark. `transformWithState` needs the extra `dedup-spark`.
"""
