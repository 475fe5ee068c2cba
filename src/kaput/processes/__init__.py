"""Ownership of child processes: what kaput starts is ended, whatever happens to kaput."""
