"""What a run's configuration promised, and whether that was kept. No Spark, no I/O."""
