"""Exports a run folder to other formats: a history for Jepsen's Kafka checker, or CSV."""
