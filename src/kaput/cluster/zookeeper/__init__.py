"""ZooKeeper mode (Kafka 3.9 and older): the rest of the cluster uses it through mode.py only."""
