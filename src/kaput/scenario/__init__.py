"""WHAT we intend: the scenario's model, its loader, its timeline, and the built-in library."""
