"""A proxy in front of a node that splits traffic into Kafka's requests and responses; for `fault:
protocol`.
"""
