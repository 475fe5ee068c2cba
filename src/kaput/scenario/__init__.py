"""Scenarios: the model, the loader, the timeline, and the built-in library."""
