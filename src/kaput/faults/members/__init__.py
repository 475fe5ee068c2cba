"""Faults on members of consumer groups: the same manner of proof as those on nodes, one file each."""
