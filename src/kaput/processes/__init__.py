"""Ownership of child processes: whatever kaput starts is ended, however kaput ends."""
