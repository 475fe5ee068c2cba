"""Spark support for the analysis: the session, the driver JVM, Python workers, and remote run folders."""
