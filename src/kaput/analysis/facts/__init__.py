"""What the small tables and the scenario tell: names, leaders, faults, groups. On the driver, no Spark."""
