"""What requests and transactions tell of how close an experiment came."""

from __future__ import annotations

from typing import Any

import pytest

from fakes.trials import findings
from kaput.core import MS
from kaput.evidence.findings import Findings
from kaput.evidence.findings_claims import FaultFindings
from kaput.evidence.findings_parts import TransactionFindings
from kaput.search.experiments import EventRows, signatures


def frame(at_ns: int, connection: int, action: str | None = None, **more: Any) -> dict[str, Any]:
    row = {
        "fault": "1-protocol",
        "api": "EndTxn",
        "client_id": "kaput-0",
        "connection": f"there:{connection}",
    }
    return {**row, "action": action, "at_ns": at_ns, **more}


def transaction(begin_ns: int, end_ns: int | None, **more: Any) -> dict[str, Any]:
    return {"begin_ns": begin_ns, "end_ns": end_ns, "outcome": "committed", "error": None, **more}


def met(effective_ns: int, standstill_ms: float | None = None) -> Findings:
    fault = FaultFindings(
        id="1-protocol", fault="protocol", target="broker 1", brokers=[1], bit=True, proof="", injected_ns=1,
        effective_ns=effective_ns, healed_ns=900,
    )  # fmt: skip
    stood = TransactionFindings(longest_standstill_ms=standstill_ms)
    return findings(faults=[fault], transactions=stood)


def test_retried_request_is_a_near_miss() -> None:
    """Its sender did not wait for the answer to the first one."""
    seen = EventRows([], [frame(10, 1, "delayed"), frame(30, 2)], [transaction(5, 20)])
    assert signatures(seen, met(10)) == {
        "EndTxn delayed, retried at ISR 0, 0 out, in a transaction, then nothing",
        "near: EndTxn retried",
    }


@pytest.mark.parametrize(
    "following",
    [
        [],
        [frame(30, 1)],
        [frame(30, 2, client_id="kaput-1")],
        [frame(30, 2, api="Metadata")],
        [frame(5, 2)],
    ],
)
def test_unrelated_request_is_not_a_retry(following: list[dict[str, Any]]) -> None:
    """The same connection goes on, or another one asked, or something else, or earlier."""
    frames = sorted([frame(10, 1, "delayed"), *following], key=lambda row: row["at_ns"])
    assert signatures(EventRows([], frames, [transaction(11, 20)]), met(10)) == {
        "EndTxn delayed at ISR 0, 0 out, then nothing"
    }


def test_retried_read_request_is_not_a_near_miss() -> None:
    frames = [frame(10, 1, "delayed", api="Fetch"), frame(30, 2, api="Fetch")]
    assert signatures(EventRows([], frames), met(10)) == {
        "Fetch delayed, retried at ISR 0, 0 out, then nothing"
    }


def test_lso_stall_longer_than_any_transaction_is_a_near_miss() -> None:
    rows = [transaction(0, 500 * MS), transaction(600 * MS, 5_000 * MS), transaction(5_000 * MS, None)]
    word = "near: a transaction is open that no producer has"
    assert word in signatures(EventRows([], [], rows), met(10, 5_500))
    assert word not in signatures(EventRows([], [], rows), met(10, 5_300))
    assert word not in signatures(EventRows([], [], rows), met(10))


def test_abort_error_of_a_transaction_is_a_near_miss() -> None:
    rows = [
        transaction(1, 2, outcome="aborted", error="_TIMED_OUT: Local: Timed out"),
        transaction(3, 4, outcome="aborted"),
        transaction(5, 6, error="_RETRY: and then it worked"),
    ]
    near = {name for name in signatures(EventRows([], [], rows), met(10)) if name.startswith("near")}
    assert near == {"near: transaction aborted after _TIMED_OUT"}


def test_transaction_left_open_by_a_killed_producer_is_not_a_near_miss() -> None:
    rows = [transaction(0, 500 * MS)]
    killed = FaultFindings(
        id="1-kill", fault="kill", target="producer 0", brokers=[], bit=True, proof="", injected_ns=1,
        effective_ns=1, healed_ns=900,
    )  # fmt: skip
    unknown = {
        **dict.fromkeys(("sent", "acked", "failed", "log_records", "stored_messages"), 0),
        "unknown": 1,
    }
    stood = TransactionFindings(longest_standstill_ms=9_000)
    near = [
        {
            name
            for name in signatures(
                EventRows([], [], rows), findings(faults=faults, totals=unknown, transactions=stood)
            )
            if name.startswith("near")
        }
        for faults in ([], [killed])
    ]
    assert near == [{"near: unknown outcomes", "near: a transaction is open that no producer has"}, set()]
