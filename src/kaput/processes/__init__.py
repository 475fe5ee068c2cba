"""Ownership of child processes: whoever starts something ends it, whatever happens to kaput in between."""
