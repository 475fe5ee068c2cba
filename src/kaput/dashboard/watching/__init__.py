"""Watching a run that is being recorded, through its folder alone: no lock is taken, and nothing written."""
