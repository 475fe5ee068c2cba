"""Errors that clients met, counted by kind of client; and the section of the report about them."""

from __future__ import annotations

from pathlib import Path

import pytest

from fakes.histories import History, at
from fakes.judging import judged
from kaput.report.run_report import to_text

STEP = {
    "at": "1s", "fault": "protocol", "target": "broker 1", "api": "Produce", "what": "error",
    "error": "NOT_ENOUGH_REPLICAS",
}  # fmt: skip


def _frame(history: History, client: str, action: str | None) -> None:
    history.add(
        "frames", fault="1-protocol", broker=1, api="Produce", api_version=12, correlation_id=7,
        client_id=client, connection="127.0.0.1:4000", action=action, at_ns=at(1),
    )  # fmt: skip


def test_errors_are_counted_by_kind_of_client(tmp_path: Path) -> None:
    """Answers of the proxy by request and error, messages by their error's code; what passed is neither."""
    history = History(faults=[STEP]).acked(0, 0, 0)
    history.sent(0, 1, None, "unknown", partition=None, error="_MSG_TIMED_OUT: Local: timed out at 10:00")
    history.sent(0, 2, None, "unknown", partition=None, error="_MSG_TIMED_OUT: Local: timed out at 10:01")
    history.sent(0, 3, None, "failed", partition=None, error="NOT_ENOUGH_REPLICAS: Broker: too few")
    history.sent(0, 4, None, "kept", partition=None, error="Local: Message timed out")
    for client, action in (("kaput-producer-0", "answered with an error"), ("kaput-producer-0", None)):
        _frame(history, client, action)
    _frame(history, "broker-2-fetcher-0", "answered with an error")
    findings = judged(history, tmp_path)
    found = {one.client: (one.answered, one.messages) for one in findings.client_errors}
    assert found == {
        "producers (librdkafka)": (
            {"Produce NOT_ENOUGH_REPLICAS": 1},
            {"Local: Message timed out": 1, "NOT_ENOUGH_REPLICAS": 1, "_MSG_TIMED_OUT": 2},
        ),
        "others": ({"Produce NOT_ENOUGH_REPLICAS": 1}, {}),
    }  # fmt: skip
    text = to_text(findings, tmp_path).plain
    assert (
        "Produce NOT_ENOUGH_REPLICAS 1" in text
        and "_MSG_TIMED_OUT 2, Local: Message timed out 1, NOT_" in text
    )
    assert "What clients did about errors on their own, and errors of members, are not recorded." in text


def test_errors_of_transactions_are_counted(tmp_path: Path) -> None:
    """Their messages end with an error of the client's own: which request failed, and how, is only there.
    The last two have no messages. What committed after an error is not counted.
    """
    history = History().acked(0, 0, 0)
    for seq in (1, 2):
        history.sent(0, seq, None, "unknown", partition=None, error="_PURGE_QUEUE: Local: Purged in queue")
    error = "INVALID_PRODUCER_ID_MAPPING: Failed to add partition(s) to transaction"
    for number, outcome in enumerate(("committed", "aborted", "aborted", "unknown", "aborted")):
        history.add(
            "transactions", transactional_id="t", producer=0, transaction=number, first_seq=min(number, 3),
            last_seq=min(number, 2), outcome=outcome, begin_ns=at(number), end_ns=at(number + 0.5),
            error=error,
        )  # fmt: skip
    findings = judged(history, tmp_path)
    (found,) = findings.client_errors
    assert found.messages == {"_PURGE_QUEUE": 2} and found.transactions == {"INVALID_PRODUCER_ID_MAPPING": 4}
    text = to_text(findings, tmp_path).plain
    assert "transactions not committed, by error" in text and "INVALID_PRODUCER_ID_MAPPING 4" in text
    assert "requests that a fault answered with an error" not in text
    head = text.partition("Why")[0]
    assert "2 messages were not acknowledged, by error: _PURGE_QUEUE 2." in head
    assert "4 transactions were not committed, by error: INVALID_PRODUCER_ID_MAPPING 4." in head


def test_a_few_messages_with_an_error_are_not_in_the_head(tmp_path: Path) -> None:
    history = History()
    for seq in range(9):
        history.acked(0, seq, seq)
    history.sent(0, 9, None, "unknown", partition=None, error="_MSG_TIMED_OUT: Local: timed out")
    text = to_text(judged(history, tmp_path), tmp_path).plain
    assert "by error: _MSG_TIMED_OUT" not in text.partition("Why")[0] and "_MSG_TIMED_OUT 1" in text


def test_report_of_a_run_without_errors_does_not_mention_them(tmp_path: Path) -> None:
    findings = judged(History().acked(0, 0, 0), tmp_path)
    assert findings.client_errors == []
    assert "Errors that clients met" not in to_text(findings, tmp_path).plain


@pytest.mark.parametrize("client_id", ["1", "broker-2-fetcher-0", "Persister-client-1", "raft-client-1"])
def test_clients_of_brokers_are_no_clients_of_the_run(client_id: str, tmp_path: Path) -> None:
    """Nor are the controllers' and kaput's own."""
    history = History()
    for who in (client_id, "billing-app"):
        history.add("requests", broker=1, client_id=who, api="Fetch", version=17, at_ns=at(1), count=1)
    assert [one.client for one in judged(history, tmp_path).requests] == ["billing-app"]
