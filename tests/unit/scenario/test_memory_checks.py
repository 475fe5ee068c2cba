"""Memory pressure: what it needs, and how little memory it leaves at least."""

from __future__ import annotations

from kaput.scenario.loader import find, mistakes_of


def _mistakes(*changes: str) -> list[str]:
    _, source = find("memory-pressure")
    return [mistake.text for mistake in mistakes_of(source, changes)]


def test_memory_pressure_requires_cgroups() -> None:
    """On any network, also for controllers."""
    assert _mistakes("faults.0.target=controller") == _mistakes("cluster.network=namespaces") == []
    (mistake,) = _mistakes("cluster.memory-groups=false")
    assert mistake == "memory-pressure needs nodes in cgroups of their own; write cluster.memory-groups: true"


def test_memory_pressure_has_a_minimum_page_cache() -> None:
    (mistake,) = _mistakes("faults.0.page-cache-mb=15")
    assert mistake.startswith("write 16 or more: ")
    assert "takes no page-cache-mb" in _mistakes("faults.0.fault=pause")[0]
