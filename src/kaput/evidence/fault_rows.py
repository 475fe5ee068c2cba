"""A row of the faults table: what is known of one injected fault."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from kaput.core import FOREVER_NS
from kaput.scenario import vocabulary
from kaput.scenario.targets import Target, recorded_target


@dataclass(frozen=True)
class FaultRow:
    """The columns of evidence/schemas.py, in their order; `confirmed` is called `bit` there. `event`,
    `event_ns`, `noticed_ns`: of the event at which it began, if it waited for one.
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

    @property
    def hit(self) -> Target:
        return recorded_target(self.target)

    @property
    def proven(self) -> bool:
        """Whether it is proven to have taken effect (see vocabulary.proven)."""
        return vocabulary.proven(self.fault, self.confirmed, self.effective_ns)

    @property
    def may_end_ns(self) -> int:
        """The earliest time at which it may have been over: a heal works before a probe confirms it."""
        return min(FOREVER_NS if at is None else at for at in (self.heal_began_ns, self.healed_ns))

    def row(self) -> tuple[Any, ...]:
        """The values, in that order."""
        return tuple(vars(self).values())


def read_faults(rows: Iterable[Mapping[str, Any]]) -> list[FaultRow]:
    """The faults in the order of their injection."""
    names = [(field.name, "bit" if field.name == "confirmed" else field.name) for field in fields(FaultRow)]
    each = ({name: row[column] for name, column in names} for row in rows)
    faults = [FaultRow(**{**one, "brokers": tuple(one["brokers"] or ())}) for one in each]
    return sorted(faults, key=lambda fault: (fault.injected_ns, fault.id))
