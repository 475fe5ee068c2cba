"""The words that every stage shares are the same everywhere."""

from __future__ import annotations

from kaput.analysis.questions import questions
from kaput.scenario.anomalies import ANOMALIES
from kaput.scenario.model import Expect


def test_every_anomaly_can_be_expected_and_told() -> None:
    """A scenario may expect a number of it, and an example has a sentence."""
    no_anomalies = {"verdict", "slump", "standstill", "stuck"}
    expected = {name.replace("_", "-") for name in Expect.model_fields} - no_anomalies
    told = {name for question in questions() for name in question.stories}
    assert expected == set(ANOMALIES) == told
