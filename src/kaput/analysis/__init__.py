"""The analysis of a run: from evidence to findings. Start at pipeline.py."""
