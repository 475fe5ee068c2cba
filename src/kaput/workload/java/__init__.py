"""Kafka's own clients, in Java."""
