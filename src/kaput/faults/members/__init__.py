"""Faults on members of consumer groups: proven like those on nodes, one file each."""
