"""Signals: names and labels by Prometheus's conventions."""

from __future__ import annotations

import re

import pytest

from kaput.monitor.signals import SIGNALS, Signal


@pytest.mark.parametrize("signal", SIGNALS.values(), ids=lambda signal: signal.name)
def test_signal_names_and_units_follow_prometheus_conventions(signal: Signal) -> None:
    assert re.fullmatch(r"kaput(_[a-z]+)+", signal.name)
    assert signal.name.endswith("_total") == (signal.kind == "counter")
    if signal.kind == "histogram":
        assert signal.name.endswith("_seconds")
    assert signal.help.endswith(".")
    assert not {"le", "quantile", "job", "instance"} & set(signal.labels), "these are Prometheus's own"
