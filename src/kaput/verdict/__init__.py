"""The verdict: what a run's configuration promised, and whether it was kept. No Spark, no I/O."""
