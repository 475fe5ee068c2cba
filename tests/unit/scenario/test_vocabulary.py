"""The words that every stage shares are the same everywhere."""

from __future__ import annotations

from kaput.analysis.questions import questions
from kaput.scenario.anomalies import ANOMALIES
from kaput.scenario.model import Expect


def test_every_anomaly_has_an_expectation_and_a_description() -> None:
    """A scenario may expect a number of it, and an example has a sentence."""
    times = {"standstill_ms", "unavailable_ms", "election_ms", "ack_p99_ms", "end_to_end_p99_ms"}
    no_anomalies = {"verdict", "mirror", "slump", "standstill", "stuck", *times}
    expected = {name.replace("_", "-") for name in Expect.model_fields.keys() - no_anomalies}
    told = {name for question in questions() for name in question.stories}
    assert expected == set(ANOMALIES) == told
