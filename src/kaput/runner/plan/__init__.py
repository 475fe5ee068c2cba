"""The plan of a run: steps of an operator, such as a failover, alongside its faults."""
