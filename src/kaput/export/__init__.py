"""A run folder in other tools' forms: a history for Jepsen's Kafka checker, or CSV."""
