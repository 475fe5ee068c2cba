"""Findings written by hand, as the analysis of leader-kill-lagging-acks-1 would give them."""

from __future__ import annotations

from typing import Any

from kaput.scenario.anomalies import GROUP_ANOMALIES, RUN_ANOMALIES

SECOND = 1_000_000_000


def _counts() -> dict[str, dict[str, Any]]:
    """The anomalies that were found at all."""
    lost = {
        "count": 23,
        "permitted": 23,
        "causes": {"deposed-leader": 23, "unclean-election": 0},
        "examples": [
            {
                "producer": 0,
                "seq": 41 + i,
                "partition": 0,
                "offset": 41 + i,
                "story": f"message {41 + i} is gone",
            }
            for i in range(5)
        ],
    }
    return {
        "lost": lost,
        "recovered": {"count": 3, "permitted": 3},
        "duplicate": {"count": 7, "permitted": 7, "extra_copies": 8},
    }


def document() -> dict[str, Any]:
    """40,000 sent, 39,997 acknowledged, 23 lost of which 11 hide behind recovered messages; one group."""
    counts = _counts()
    zero = {"count": 0, "permitted": 0}
    return {
        "schema": "kaput.findings/1",
        "run": {
            "id": "0b6f", "scenario": "leader-kill-lagging-acks-1", "title": "Killing the leader", "seed": 7,
            "kafka": "4.3.1", "mode": "kraft", "started_ns": 1_700_000_000 * SECOND, "ended_ns": None,
        },
        "verdict": "held",
        "reasons": [
            "23 acknowledged messages are lost, permitted: acks=1 promises nothing across a change of leader."
        ],
        "notes": ["a note"],
        "totals": {
            "sent": 40_000, "acked": 39_997, "failed": 0, "unknown": 3, "log_records": 39_985,
            "stored_messages": 39_977,
        },
        "fates": [
            {"outcome": "acked", "stored": "1", "count": 39_967},
            {"outcome": "acked", "stored": "n", "count": 7},
            {"outcome": "acked", "stored": "0", "count": 23},
            {"outcome": "unknown", "stored": "1", "count": 3},
            {"outcome": "failed", "stored": "0", "count": 0},
        ],
        "groups": [
            {
                "group": "billing", "drained": True, "delivered_messages": 39_977,
                "redelivered_after_commit": 2,
                "fates": [
                    {"outcome": "acked", "stored": "1", "delivered": "1", "count": 39_977},
                    {"outcome": "acked", "stored": "0", "delivered": "0", "count": 23},
                ],
            }
        ],
        "anomalies": [{"name": name, **counts.get(name, zero)} for name in RUN_ANOMALIES]
        + [{"name": name, "group": "billing", **zero} for name in GROUP_ANOMALIES],
        "high_watermark_arithmetic": {"acked": 39_997, "end_offsets": 39_985, "difference": 12},
        "faults": [
            {
                "id": "1-kill", "fault": "kill", "target": "leader-of orders/0", "brokers": [1], "bit": True,
                "proof": "broker 1 (pid 77): gone", "injected_ns": 0, "effective_ns": 1, "healed_ns": 2,
                "loss_window_ms": 1990.4, "lost": 23, "lost_share": 0.0058, "affected": 1234,
                "sent_in_window": 5678, "affected_share": 0.2173, "acked_in_loss_window": 3987,
                "sent_in_loss_window": 3990, "election_ms": 9480.0, "unavailable_ms": 10012.5,
                "first_ack_after_ms": 9900.25, "isr_restored_ms": None,
            }
        ],
        "unavailability": [
            {
                "producer": 0, "topic": "orders", "partition": 0, "longest_ms": 10012.5,
                "from_ns": 0, "to_ns": 1,
            }
        ],
        "latency_ms": {"ack": {"p50": 1.25, "p99": 9876.5, "p999": 9999.0, "max": 10012.5}, "end_to_end": {}},
        "rates": {"sent_per_s": 2000.0, "acked_per_s": 1333.3},
    }  # fmt: skip


def anomaly(found: dict[str, Any], name: str) -> dict[str, Any]:
    """The document's first entry of that name, to be changed."""
    return next(a for a in found["anomalies"] if a["name"] == name)
