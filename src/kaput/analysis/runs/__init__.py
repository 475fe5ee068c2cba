"""Runs of rows: what they are, how rows are encoded as runs, and how runs of several tables are matched."""
