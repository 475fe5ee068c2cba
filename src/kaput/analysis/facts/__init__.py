"""Facts from the small tables and the scenario: names, leaders, faults, groups. On the driver, no Spark."""
