"""What a check is, and the words that checks share. Every check: checks.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from kaput.operate.doctor.snapshot import Partition, Snapshot

Severity = Literal["critical", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)


@dataclass(frozen=True)
class Found:
    """One place where a check found something: what it is, what shows it, and the command that mends it."""

    resource: str
    evidence: str
    remedy: str


@dataclass(frozen=True)
class Check:
    """A check; `title` is the sentence why."""

    id: str
    severity: Severity
    title: str
    look: Callable[[Snapshot], Iterator[Found]]


CHECKS: list[Check] = []


def check(
    number: str, severity: Severity, title: str
) -> Callable[[Callable[[Snapshot], Iterator[Found]]], Callable[[Snapshot], Iterator[Found]]]:
    """Registers a check."""

    def register(look: Callable[[Snapshot], Iterator[Found]]) -> Callable[[Snapshot], Iterator[Found]]:
        CHECKS.append(Check(number, severity, title, look))
        return look

    return register


def numbers(partitions: list[Partition]) -> str:
    """`partitions 0, 1, 2`, at most five of them by number."""
    some = ", ".join(str(partition.number) for partition in partitions[:5])
    more = f" and {len(partitions) - 5} more" if len(partitions) > 5 else ""
    return f"{'partition' if len(partitions) == 1 else 'partitions'} {some}{more}"


def ids(numbers: Iterable[int]) -> str:
    """In order, or `none`."""
    return listed(sorted(numbers))


def listed(numbers: Iterable[int]) -> str:
    """As they come, or `none`."""
    return ", ".join(map(str, numbers)) or "none"
