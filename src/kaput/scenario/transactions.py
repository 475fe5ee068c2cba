"""The `transactions` block of producers, and which partition keeps the state of one, or of a group: its
leader is the coordinator.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainSerializer, WithJsonSchema

from kaput.scenario.block import Block
from kaput.scenario.values import Positive, share_of


def _parse_share(value: Any) -> float:
    """0.1 for `10%`, 0 for 0. Raises ValueError."""
    share = Fraction(0) if value == 0 and not isinstance(value, bool) else share_of(str(value))
    if share is None or share > 1:
        raise ValueError(f"{value!r} is not a share; write for example 10%, or 0")
    return float(share)


ID_PREFIX = "kaput-producer"
Share = Annotated[
    float,
    BeforeValidator(_parse_share),
    Field(ge=0, le=1),
    PlainSerializer(lambda share: f"{round(share * 100, 6):g}%", return_type=str),
    WithJsonSchema({"type": ["string", "number"], "examples": ["10%", 0]}),
]


class Transactions(Block):
    """Messages are sent so many at a time; then the transaction is committed, or aborted."""

    size: Positive = 10
    """How many messages a transaction has; the last one of a producer may have fewer."""
    abort: Share = 0.0
    """Which share of the transactions is aborted on purpose, evenly spread: 10% is every tenth."""

    id_prefix: Annotated[str, Field(min_length=1)] = ID_PREFIX
    """What transactional ids begin with; the number of the producer follows."""

    def aborts(self, number: int) -> bool:
        """Whether transaction number `number`, from 0, is aborted on purpose."""
        share = Fraction(str(self.abort))  # as written: in floating point 7 % of 100 is more than 7
        return int((number + 1) * share) > int(number * share)


def transactional_id(producer: int, prefix: str = ID_PREFIX) -> str:
    """The transactional id of the producer with that number."""
    return f"{prefix}-{producer}"


TRANSACTIONS = "__transaction_state"


def partition_of(name: str, count: int) -> int:
    """The partition, as Kafka computes it: Java's hash of the name, made positive, modulo the partitions."""
    value = 0
    units = name.encode("utf-16-be", "surrogatepass")
    for at in range(0, len(units), 2):
        value = (31 * value + int.from_bytes(units[at : at + 2], "big")) % 2**32
    signed = value - 2**32 if value >= 2**31 else value
    return (0 if signed == -(2**31) else abs(signed)) % count
