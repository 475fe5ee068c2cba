"""Real brokers from Kafka's published jars: fetched, verified, configured, started, watched, and ended."""
