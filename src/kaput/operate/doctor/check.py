"""The type of a check, and helpers for checks. The list of checks: checks.py."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from kaput.operate.doctor.snapshot import Replicas, Snapshot

Severity = Literal["critical", "warning", "info"]
SEVERITIES: tuple[Severity, ...] = get_args(Severity)


@dataclass(frozen=True)
class Hit:
    """One finding of a check: the resource, the evidence, and the command that fixes it."""

    resource: str
    evidence: str
    remedy: str


@dataclass(frozen=True)
class DoctorCheck:
    """A check; `title`: the risk; `look`: finds the hits in a snapshot."""

    id: str
    severity: Severity
    title: str
    look: Callable[[Snapshot], Iterator[Hit]]


CHECKS: list[DoctorCheck] = []


def check(
    number: str, severity: Severity, title: str
) -> Callable[[Callable[[Snapshot], Iterator[Hit]]], Callable[[Snapshot], Iterator[Hit]]]:
    """Registers a check."""

    def register(
        look: Callable[[Snapshot], Iterator[Hit]],
    ) -> Callable[[Snapshot], Iterator[Hit]]:
        CHECKS.append(DoctorCheck(number, severity, title, look))
        return look

    return register


def numbers(partitions: list[Replicas]) -> str:
    """`partitions 0, 1, 2`, with at most five numbers."""
    some = ", ".join(str(partition.number) for partition in partitions[:5])
    more = f" and {len(partitions) - 5} more" if len(partitions) > 5 else ""
    return f"{'partition' if len(partitions) == 1 else 'partitions'} {some}{more}"


def ids(numbers: Iterable[int]) -> str:
    """The numbers sorted, as `1, 2`; `none` if there are none."""
    return listed(sorted(numbers))


def listed(numbers: Iterable[int]) -> str:
    """The numbers in the given order; `none` if there are none."""
    return ", ".join(map(str, numbers)) or "none"
