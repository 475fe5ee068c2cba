"""Faults in the protocol on a cluster without a scenario: in place at once, proven when they are healed."""

from __future__ import annotations

import pytest

import kaput


def test_requests_get_an_error_on_a_standing_cluster() -> None:
    """The heal says how many; none is no effect, and the cluster goes on."""
    options = {"api": "Produce", "what": "error", "error": "NOT_LEADER_OR_FOLLOWER"}
    with kaput.lab(brokers=1, proxies="clients") as lab:
        lab.create_topic("orders", replication_factor=1)
        injected = lab.inject("protocol", "all", nth=1, **options)
        assert [fault.id for fault in lab.active_faults] == [injected.id]
        assert lab.produce("orders", count=10).acked == 10
        assert "1 answered with an error NOT_LEADER_OR_FOLLOWER" in lab.heal(injected).proof
        injected = lab.inject("protocol", "all", **options)
        with pytest.raises(kaput.FaultError, match=r"had no effect: .* nothing was done to any of them"):
            lab.heal(injected)
        assert lab.produce("orders", count=10).acked == 10
