"""The partition with the state of a group or transactional producer; its leader is the coordinator."""

from __future__ import annotations

TRANSACTIONS = "__transaction_state"


def partition_of(name: str, count: int) -> int:
    """The partition, as Kafka computes it: Java's hash of the name, made positive, modulo the partitions."""
    value = 0
    units = name.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2], "big")) % 2**32
    signed = value - 2**32 if value >= 2**31 else value
    return (0 if signed == -(2**31) else abs(signed)) % count
