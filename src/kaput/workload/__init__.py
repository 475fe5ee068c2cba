"""The clients of a run: producers and group members, each in its own process, and the final drain."""
