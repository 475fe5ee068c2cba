"""Causes of lost messages: which leader epoch overwrote each, and which replicas had it."""
