"""From evidence to findings. Start at pipeline.py."""
