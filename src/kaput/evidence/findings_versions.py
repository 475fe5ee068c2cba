"""Parts of the findings: the versions actually used. The document: findings.py."""

from __future__ import annotations

from kaput.evidence.findings_parts import FindingsPart


class FeatureLevels(FindingsPart):
    """Levels of Kafka's features, as a broker answered."""

    cluster: str | None
    """Which of several clusters; null: the only one."""
    levels: dict[str, int]
    """By feature, when the load began; what is at level 0 is left out."""
    changed: dict[str, int] = {}
    """Those that were at another level at the end of the run."""


class ClientRequests(FindingsPart):
    """What one kind of clients sent, as the brokers saw it."""

    client: str
    """Who: producers or a group with their client, or, for other clients, the client id."""
    libraries: list[str] = []
    """Its library with its version, as its processes said; empty if they did not."""
    requests: dict[str, list[int]] = {}
    """By Kafka's name of a request: the versions of it that were used."""
