"""Generates numbered lines for any client, and checks them for missing, duplicate and reordered ones."""
