"""The way back from a fault, step by step."""

from __future__ import annotations

import pytest
from handmade_findings import document

from kaput.evidence.findings import FaultFindings, Findings
from kaput.evidence.findings_claims import Claim
from kaput.report.sections import JudgedRun
from kaput.report.sections.faults import began_at, by_others, partitions
from kaput.report.timeline.bars import recovery_bars

MS = 1_000_000


def fault(**known: object) -> FaultFindings:
    """A kill that took hold at 0, of which that is known."""
    written = {**document()["faults"][0], "effective_ns": 0, "healed_ns": None}
    cleared = {name: None for name in written if name.endswith("_ms")}
    return FaultFindings.model_validate(written | cleared | known)


def test_recovery_steps_are_contiguous() -> None:
    """All that is known, in the order of time."""
    whole = fault(
        healed_ns=9000 * MS, election_ms=2000.0, first_ack_after_ms=2250.0,
        first_delivery_after_ms=2400.0, backlog_drained_ms=6400.0, isr_restored_ms=1500.0,
    )  # fmt: skip
    bars = [(bar.row, bar.begin, bar.end, bar.text) for bar in recovery_bars(whole)]
    assert bars == [
        ("the fault", 0.0, 9.0, "9.0 s until the heal"),
        ("election", 0.0, 2.0, "2,000 ms"),
        ("new leader's first ack", 2.0, 2.25, "250 ms after the election"),
        ("its first delivery", 2.25, 2.4, "150 ms after the first acknowledgement"),
        ("backlog drained", 2.4, 6.4, "6.4 s after the fault"),
        ("full ISR", 9.0, 10.5, "1,500 ms after the heal"),
    ]


def test_a_change_that_stays_has_no_bar() -> None:
    """It has no duration."""
    assert list(recovery_bars(fault(healed_ns=0))) == []


@pytest.mark.parametrize(
    ("known", "row", "begin"),
    [
        ({"first_delivery_after_ms": 500.0}, "its first delivery", 0.0),
        ({"first_ack_after_ms": 900.0, "first_delivery_after_ms": 500.0}, "its first delivery", 0.5),
        ({"backlog_drained_ms": 500.0}, "backlog drained", 0.0),
    ],
)
def test_unknown_recovery_steps_are_omitted(known: dict[str, float], row: str, begin: float) -> None:
    """And no bar ends before it begins: a reader may be told before the writer."""
    *_, last = recovery_bars(fault(**known))
    assert (last.row, last.begin, last.end) == (row, begin, 0.5)


@pytest.mark.parametrize(("acked", "named"), [(1, ("", "")), (0, ("orders/1", "orders/0"))])
def test_partitions_of_election_and_first_acknowledgement_are_named_if_they_differ(
    acked: int, named: tuple[str, str]
) -> None:
    """Orders/1 had its leader first; either may acknowledge first."""
    of = fault(election_ms=1.0, first_ack_after_ms=3.0)
    elections = [
        Claim(kind="election", fault=of.id, topic="orders", partition=n, to_ns=at_ns * MS)
        for n, at_ns in ((0, 2), (1, 1))
    ]
    acks = [
        Claim(kind="first-ack", fault=of.id, topic="orders", partition=n, to_ns=(3 if n == acked else 4) * MS)
        for n in (0, 1)
    ]
    findings = Findings.model_validate(document() | {"claims": []})
    findings.claims.extend([*elections, *acks])
    assert partitions(JudgedRun(findings), of) == named


def test_recovery_chart_without_data_is_omitted() -> None:
    assert list(recovery_bars(fault())) == []


@pytest.mark.parametrize(
    ("known", "text"),
    [
        ({}, None),
        (
            {
                "event": "election of orders/0",
                "event_ns": 5 * MS,
                "noticed_ns": 33 * MS,
                "injected_ns": 36 * MS,
            },
            "election of orders/0; injected 31 ms later",
        ),
        (
            {
                "event": "isr-shrink of orders/0",
                "event_ns": 5 * MS,
                "injected_ns": 36 * MS,
                "effective_ns": 40 * MS,
            },
            "isr-shrink of orders/0; injected 31 ms later, in effect 35 ms after it",
        ),
        (
            {
                "event": "election of orders/0",
                "noticed_ns": 33 * MS,
                "injected_ns": 36 * MS,
                "effective_ns": 40 * MS,
            },
            "election of orders/0; injected 3 ms later, in effect 7 ms after it was noticed",
        ),
    ],
)
def test_triggered_fault_shows_its_delay_after_the_event(known: dict[str, object], text: str | None) -> None:
    """By the event's own time, or by when it was noticed where that is unknown; others say nothing."""
    one = fault(**{"effective_ns": None, **known})
    assert began_at(one) == text


def test_silence_of_another_fault_names_that() -> None:
    """What one fault did may last until another one comes."""
    about = {"topic": "orders", "partition": 0, "from_ns": 1, "to_ns": 9 * MS}
    silence = Claim(kind="unavailable", fault="1-kill", **about)
    cause, elsewhere = (
        Claim(kind="cause", fault=fault, **{**about, "partition": partition})
        for fault, partition in (("4-kill", 0), ("1-kill", 1))
    )
    mine = fault(id="1-kill")
    assert by_others(mine, [silence, cause, elsewhere]) == "likeliest cause: 4-kill"
    assert by_others(mine, [silence, elsewhere]) == ""
    assert by_others(mine, [silence, cause, Claim(kind="cause", fault="1-kill", **about)]) == ""
