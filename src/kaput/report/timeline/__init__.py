"""What happened when in a run, in seconds: the data that charts draw."""
