"""A Grafana dashboard generated from SIGNALS: a panel for each signal, in rows by subject."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from kaput.monitor.signals import SIGNALS, Signal

_WIDTH, _HEIGHT, _COLUMNS = 8, 7, 3
_SOURCE = {"type": "prometheus", "uid": "${datasource}"}
# Rows by prefix of a signal's name. The first match counts.
_ROWS = (
    ("Messages", ("kaput_messages_", "kaput_produce_", "kaput_end_to_end_", "kaput_unacknowledged_")),
    ("Consumer groups", ("kaput_consumer_", "kaput_group_")),
    (
        "Partitions",
        ("kaput_offline_", "kaput_under_", "kaput_reassigning_", "kaput_unclean_", "kaput_spare_"),
    ),
    ("Faults and mirrors", ("kaput_fault_", "kaput_mirror_")),
    ("The exporter", ("kaput_last_poll_", "kaput_poll_", "kaput_samples_")),
    ("Brokers and controllers", ("kaput_",)),
)
_UNITS = (("_seconds", "s"), ("_ratio", "percentunit"), ("_bytes", "bytes"))


def dashboard_text() -> str:
    """The dashboard as JSON, for Grafana's import."""
    return json.dumps(dashboard(), indent=2) + "\n"


def dashboard() -> dict[str, Any]:
    panels = list(_panels())
    return {
        "title": "kaput",
        "uid": "kaput-signals",
        "description": "Every signal of kaput (kaput metrics --grafana).",
        "tags": ["kafka", "kaput"],
        "schemaVersion": 39,
        "editable": True,
        "refresh": "5s",
        "time": {"from": "now-30m", "to": "now"},
        "annotations": {"list": []},
        "templating": {
            "list": [
                {
                    "name": "datasource",
                    "label": "Prometheus",
                    "type": "datasource",
                    "query": "prometheus",
                }
            ]
        },
        "panels": panels,
    }


def _panels() -> Iterator[dict[str, Any]]:
    top, number = 0, 0
    for title, signals in _in_rows():
        number += 1
        yield {
            "id": number,
            "type": "row",
            "title": title,
            "collapsed": False,
            "panels": [],
            "gridPos": {"x": 0, "y": top, "w": 24, "h": 1},
        }
        top += 1
        for at, signal in enumerate(signals):
            number += 1
            place = {
                "x": at % _COLUMNS * _WIDTH,
                "y": top + at // _COLUMNS * _HEIGHT,
                "w": _WIDTH,
                "h": _HEIGHT,
            }
            yield _panel(number, signal, place)
        top += -(-len(signals) // _COLUMNS) * _HEIGHT


def _in_rows() -> list[tuple[str, list[Signal]]]:
    rows: dict[str, list[Signal]] = {title: [] for title, _ in _ROWS}
    for signal in SIGNALS.values():
        title = next(title for title, begins in _ROWS if signal.name.startswith(begins))
        rows[title].append(signal)
    return [(title, signals) for title, signals in rows.items() if signals]


def _panel(number: int, signal: Signal, place: dict[str, int]) -> dict[str, Any]:
    unit = (
        "ops" if signal.kind == "counter" else next((u for e, u in _UNITS if signal.name.endswith(e)), "none")
    )
    return {
        "id": number,
        "type": "timeseries",
        "title": _title(signal),
        "description": signal.help,
        "datasource": _SOURCE,
        "gridPos": place,
        "fieldConfig": {"defaults": {"unit": unit, "custom": {"spanNulls": False}}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + n), "datasource": _SOURCE, "expr": expression, "legendFormat": legend}
            for n, (expression, legend) in enumerate(queries(signal))
        ],
    }


def queries(signal: Signal) -> Sequence[tuple[str, str]]:
    """PromQL expressions, and the legends of their lines."""
    by = ", ".join(signal.labels)
    legend = " ".join(f"{{{{{label}}}}}" for label in signal.labels) or "{{instance}}"
    match signal.kind:
        case "gauge":
            return [(signal.name, legend)]
        case "counter":
            return [(f"rate({signal.name}[$__rate_interval])", legend)]
        case "histogram":
            parts = ", ".join(filter(None, ["le", by]))
            rates = f"sum by ({parts}) (rate({signal.name}_bucket[$__rate_interval]))"
            return [
                (f"histogram_quantile({share}, {rates})", f"{name} {legend}" if by else name)
                for share, name in ((0.5, "p50"), (0.99, "p99"))
            ]


def _title(signal: Signal) -> str:
    words = signal.name.removeprefix("kaput_").removesuffix("_total").replace("_", " ")
    return words[:1].upper() + words[1:] + (" per second" if signal.kind == "counter" else "")
