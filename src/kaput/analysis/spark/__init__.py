"""Spark itself: its session, the driver's JVM and its quick start, workers, evidence elsewhere."""
