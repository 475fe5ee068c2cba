"""The page of several runs in a real Chromium."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from browser.conftest import READY_MS, Opened, Opens
from kaput.evidence.findings import Findings
from kaput.evidence.folder import RunFolder
from kaput.report.comparison import Entry
from kaput.report.comparison_report import to_html

expect.set_options(timeout=READY_MS)


@pytest.fixture(scope="module")
def compared(report: Path, opens_for_all: Opens) -> Opened:
    """A run and one whose acknowledgements took longer, and that is violated."""
    folder = RunFolder(report.parent)
    findings = Findings.model_validate_json(folder.findings_path.read_text())
    ack = findings.latency_ms.ack.model_copy(update={"p99": 777.0})
    latency = findings.latency_ms.model_copy(update={"ack": ack})
    slow = findings.model_copy(update={"latency_ms": latency, "verdict": "violated"})
    runs = {"1": findings, "all": slow}
    entries = [Entry(acks, acks, "leader-isolated", {"acks": acks}, told) for acks, told in runs.items()]
    path = report.parent / "compared.html"
    path.write_text(to_html([(folder, told) for told in runs.values()], entries), encoding="utf-8")
    return opens_for_all(path)


def test_timelines_lie_below_each_other(compared: Opened) -> None:
    """Every chart is drawn, and the same second of each run lies at the same place."""
    page = compared.page
    assert compared.complaints == [] and len(compared.asked) == 1
    names = [f"{run}-{row}" for run in (0, 1) for row in ("faults", "rates", "ack")]
    boxes = [page.locator(f"#chart-{name} .background").first.bounding_box() for name in names]
    assert len({(round(box["x"]), round(box["width"])) for box in boxes if box}) == 1
    seconds = page.locator("#chart-1-ack .role-axis-label text").all_text_contents()
    assert "0" in seconds and "−10" in seconds
    assert page.locator("#chart-dots-0 .mark-symbol path").count() == 2


def test_readout_shows_the_same_moment_of_every_run(compared: Opened) -> None:
    """Seconds since the first fault of each."""
    page = compared.page
    page.locator("#chart-0-rates").scroll_into_view_if_needed()
    box = page.locator("#chart-0-rates .background").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] * (15 + 5.5) / 66, box["y"] + 20)
    said = r"^5\.\d\d s\s+acks 1: sent 50/s.*isolate broker 1.*\s+acks all: sent 50/s.*isolate broker 1"
    expect(page.locator(".readout")).to_have_text(re.compile(said, re.DOTALL))


def test_axe_finds_no_violations(compared: Opened) -> None:
    """On the page of several runs either."""
    found = Axe().run(compared.page)
    assert found.violations_count == 0, found.generate_report()
