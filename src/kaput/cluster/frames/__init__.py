"""A proxy in front of a broker that knows where Kafka's requests begin and end, for faults in the protocol."""
