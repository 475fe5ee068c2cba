"""Clients on librdkafka: producers, members of groups, pipes."""
