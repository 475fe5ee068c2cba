"""What the tasks of each stage have found, put together on the driver: the account of the run."""
