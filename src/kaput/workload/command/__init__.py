"""Clients that are the user's own programs, over a protocol of JSON lines."""
