"""A row of the faults table: what is known of one injected fault."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from kaput.core import FOREVER_NS
from kaput.scenario import vocabulary
from kaput.scenario.targets import Target, recorded_target


@dataclass(frozen=True)
class FaultRow:
    """The columns of evidence/schemas.py, in their order; `confirmed` is called `bit` there. `event`,
    `event_ns`, `noticed_ns`: of the event at which it began, if it waited for one. `toggles_ns`: when a
    flapping link worked again, and was cut again, in turn.
    """

    id: str
    fault: str
    target: str
    brokers: tuple[int, ...]
    injected_ns: int
    effective_ns: int | None
    healed_ns: int | None
    confirmed: bool
    proof: str
    event: str | None = None
    event_ns: int | None = None
    noticed_ns: int | None = None
    heal_began_ns: int | None = None
    cluster: str | None = None
    toggles_ns: tuple[int, ...] = ()

    @property
    def hit(self) -> Target:
        return recorded_target(self.target)

    @property
    def proven(self) -> bool:
        """Whether it is proven to have taken effect (see vocabulary.proven)."""
        return vocabulary.proven(self.fault, self.confirmed, self.effective_ns)

    @property
    def until_ns(self) -> int:
        """When it was healed; FOREVER_NS if never."""
        return FOREVER_NS if self.healed_ns is None else self.healed_ns

    def in_effect(self, from_ns: int, to_ns: int) -> bool:
        return self.effective_ns is not None and self.effective_ns < to_ns and self.until_ns > from_ns

    @property
    def may_end_ns(self) -> int:
        """The earliest time at which it may have been over: a heal works before a probe confirms it."""
        return self.until_ns if self.heal_began_ns is None else min(self.heal_began_ns, self.until_ns)

    def cuts(self) -> list[FaultRow]:
        """The cuts of a flap, each as a fault of its own, if they are recorded; else the fault as it is."""
        if not self.toggles_ns or self.effective_ns is None:
            return [self]
        begins, ends = [self.effective_ns, *self.toggles_ns[1::2]], self.toggles_ns[::2]
        over = [replace(self, healed_ns=end, heal_began_ns=end) for end in ends]
        last = [self] * (len(begins) > len(ends))
        return [replace(one, effective_ns=at) for at, one in zip(begins, [*over, *last], strict=True)]

    def row(self) -> tuple[Any, ...]:
        """The values, in that order."""
        return tuple(vars(self).values())


def read_faults(rows: Iterable[Mapping[str, Any]]) -> list[FaultRow]:
    """The faults in the order of their injection."""
    names = [(field.name, "bit" if field.name == "confirmed" else field.name) for field in fields(FaultRow)]
    each = ({name: row[column] for name, column in names} for row in rows)
    lists = ("brokers", "toggles_ns")
    faults = [FaultRow(**{**one, **{name: tuple(one[name] or ()) for name in lists}}) for one in each]
    return sorted(faults, key=lambda fault: (fault.injected_ns, fault.id))
