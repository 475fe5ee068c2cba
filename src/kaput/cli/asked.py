"""Which brokers a verb asks: those that are named, else the cluster that stands."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple


class Asked(NamedTuple):
    """Their addresses; `folder`: of a standing cluster of kaput's own, where its brokers' files are."""

    servers: str
    folder: Path | None


def asked(bootstrap_servers: str | None, cluster: str | None) -> Asked:
    """Raises UsageError where neither is said and not exactly one cluster stands."""
    from kaput.errors import UsageError
    from kaput.operate.homes import find, standing

    if bootstrap_servers is not None:
        return Asked(bootstrap_servers, None)
    cards = [find(cluster)] if cluster is not None else standing()
    if len(cards) != 1:
        known = ", ".join(card.name for card in cards)
        which = f"which one? --cluster: {known}" if cards else "none stands: say --bootstrap-servers"
        raise UsageError(f"which cluster? {which}")
    return Asked(cards[0].bootstrap_servers, Path(cards[0].folder))
