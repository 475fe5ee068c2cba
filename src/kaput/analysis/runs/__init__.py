"""Evidence as runs: what a run is, how rows become runs, and how runs of several tables are matched."""
