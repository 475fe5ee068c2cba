"""The closer look: what the sums of the engine leave open, settled row by row on the driver.

The rows are those that the engine put aside (dense/suspects.py) and those that a second look at the evidence
found (dense/scan.py). Each module answers one question; look.py asks them in order.
"""
