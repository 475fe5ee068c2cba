"""kaput: the failover laboratory for Apache Kafka. Start with docs/ARCHITECTURE.md."""

__version__ = "0.1.0"
