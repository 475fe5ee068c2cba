"""Findings that nobody can show: too large, or with numbers that no run has. A page says what is wrong."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fakes.run_folders import Site, judged, served
from kaput.dashboard.safe_files import MOST_BYTES
from kaput.errors import UsageError
from kaput.evidence.findings_file import read_findings

HUGE = 10**30
PAGES = [f"/runs/good{page}" for page in ("", "/live", "/replay", "/timeline.json", "/events")]


def document(began_ns: int = 0, loss_window_ms: float = 1.5, acked: int = 1, seed: int = 7) -> dict[str, Any]:
    """The least that is findings, with a fault."""
    fault = {
        "id": "1-kill",
        "fault": "kill",
        "target": "broker 1",
        "brokers": [1],
        "bit": True,
        "proof": "gone",
    }
    times = {"injected_ns": 0, "effective_ns": 1, "healed_ns": 2, "loss_window_ms": loss_window_ms}
    return {
        "schema": "kaput.findings/1",
        "run": {
            "id": "0b6f", "scenario": "s", "seed": seed, "kafka": "4.3.1", "mode": "kraft",
            "started_ns": began_ns, "ended_ns": None,
        },
        "verdict": "held",
        "reasons": [],
        "totals": {
            "sent": 1, "acked": acked, "failed": 0, "unknown": 0, "log_records": 1, "stored_messages": 1,
        },
        "fates": [],
        "groups": [],
        "anomalies": [],
        "high_watermark_arithmetic": {"acked": 1, "end_offsets": 1, "difference": 0},
        "faults": [{**fault, **times, "lost": 0, "affected": 0, "sent_in_window": 1}],
        "unavailability": [],
        "latency_ms": {"ack": {}, "end_to_end": {}},
        "rates": {"sent_per_s": 1.0, "acked_per_s": 1.0},
    }  # fmt: skip


OUT_OF_RANGE = {
    "began": ({"began_ns": HUGE}, "run.started_ns"),
    "before": ({"began_ns": -HUGE}, "run.started_ns"),
    "window": ({"loss_window_ms": 1e300}, "faults.0.loss_window_ms"),
    "nothing": ({"loss_window_ms": float("nan")}, "faults.0.loss_window_ms"),
    "count": ({"acked": HUGE}, "totals.acked"),
}


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Runs whose findings are wrong in one place each, and one whose are right."""
    runs = tmp_path_factory.mktemp("runs")
    judged(runs, "good").findings_path.write_text(json.dumps(document()))
    for name, (wrong, _) in OUT_OF_RANGE.items():
        judged(runs, name).findings_path.write_text(json.dumps(document(**wrong)))
    os.truncate(judged(runs, "large").findings_path, MOST_BYTES + 1)
    with served(runs) as found:
        yield found


@pytest.mark.parametrize("name", OUT_OF_RANGE)
def test_out_of_range_number_is_named(site: Site, name: str, capfd: pytest.CaptureFixture[str]) -> None:
    """On the page, and by `kaput report`; no traceback anywhere."""
    _, where = OUT_OF_RANGE[name]
    page = site.ask(f"/runs/{name}")
    assert page.status == 500 and f"{where} is out of range" in page.text
    assert f"{where} is out of range" in site.ask(f"/runs/{name}/timeline.json").text
    compared = site.ask(f"/compare?run={name}&run=good")
    assert compared.status == 409 and f"{where} is out of range" in compared.text
    with pytest.raises(UsageError, match=f"findings.json: .*{where} is out of range"):
        read_findings(site.dashboard.runs.root / name / "findings.json")
    assert capfd.readouterr().err == ""


def test_a_seed_is_any_number(tmp_path: Path) -> None:
    """It is the user's, and nothing is calculated with it."""
    path = tmp_path / "findings.json"
    path.write_text(json.dumps(document(seed=HUGE)))
    assert read_findings(path).run.seed == HUGE


@pytest.mark.parametrize("path", ["/runs/large", "/runs/large/timeline.json", "/compare?run=large&run=good"])
def test_oversized_findings_are_not_read(site: Site, path: str) -> None:
    """As no other file is; the page says how much it may have."""
    answer = site.ask(path)
    assert f"large/findings.json has more than {MOST_BYTES:,} bytes" in answer.text


def test_unexpected_exception_is_shown_as_an_error_page(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """With its name, instead of a traceback on the terminal; and the next page comes."""

    class Broken:
        def lines(self) -> list[Any]:
            raise RuntimeError("nobody expected <this>")

    with served(tmp_path) as site:
        whole, site.dashboard.listing = site.dashboard.listing, Broken()  # type: ignore[assignment]
        answer = site.ask("/")
        assert answer.status == 500 and "a bug in kaput" in answer.text
        assert "RuntimeError: nobody expected &lt;this&gt;" in answer.text
        site.dashboard.listing = whole
        assert site.ask("/").status == 200
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize("path", ["/", "/none", "/static/dashboard.css", *PAGES])
def test_head_returns_the_headers_of_get(site: Site, path: str) -> None:
    """With the same status and kind of content, and nothing in it."""
    head = site.ask(path, method="HEAD")
    assert head.text == ""
    if path.endswith("/events"):  # which go on until the run is judged
        assert head.status == 200 and head.headers["content-type"].startswith("text/event-stream")
        return
    get = site.ask(path)
    assert (head.status, head.headers["content-type"]) == (get.status, get.headers["content-type"])
    assert head.headers["content-security-policy"] == get.headers["content-security-policy"]
