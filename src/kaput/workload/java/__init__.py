"""Clients that are Kafka's own, in Java."""
