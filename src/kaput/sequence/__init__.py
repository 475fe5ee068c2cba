"""Numbered lines for any client: generated, and what comes back checked for what is missing or twice."""
