"""The timeline of a run, in seconds: the data that charts draw."""
