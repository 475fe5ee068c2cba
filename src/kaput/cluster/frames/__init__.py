"""A proxy in front of a node, which knows where Kafka's requests begin and end; for `fault: protocol`."""
