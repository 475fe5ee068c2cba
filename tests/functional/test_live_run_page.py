"""A run with real brokers is watched in a real browser while it lasts, until its verdict."""

from __future__ import annotations

import json
import re
import subprocess
import threading
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Page, expect

from browser.conftest import Opens, browser, opens  # noqa: F401 - fixtures
from driving import KAPUT, UNHURRIED, client
from waiting import PATIENCE_S, wait_for

BOUND_MS = 1_000 * PATIENCE_S
MESSAGES = 3000
_LONG_MS = 1_800_000
_SCENARIO = f"""
version: 1
title: Watched
cluster: {{brokers: 1}}
topics: [{{name: orders, partitions: 2, replication-factor: 1}}]
workload:
  producers: [{{topic: orders, messages: {MESSAGES}, rate: 250}}]
  # The pause may outlast any session: its member would leave the group, and join it a session later.
  groups:
    - id: billing
      topics: [orders]
      config: {{session.timeout.ms: {_LONG_MS}, max.poll.interval.ms: {_LONG_MS}}}
# It lasts until all is sent, and its producer is stopped until the page has shown it.
faults: [{{at: 2s, fault: pause, target: any}}]
expect: {{verdict: held, lost: 0}}
"""


@pytest.mark.alone  # the dashboard works behind everybody else
def test_a_run_is_watched_until_its_verdict(tmp_path: Path, opens: Opens) -> None:  # noqa: F811
    """The phases, provisional counts that grow, the fault while it lasts; then what findings.json says."""
    (tmp_path / "watched.yaml").write_text(_SCENARIO)
    runs = tmp_path / "runs"
    words = ["run", str(tmp_path / "watched.yaml"), "--dashboard", "--no-page", *UNHURRIED]
    words += ["--runs", str(runs)]
    running = subprocess.Popen([*KAPUT, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert running.stdout is not None and running.stderr is not None
    said: list[str] = []
    err = running.stderr
    reading = threading.Thread(target=lambda: said.extend(iter(err.readline, "")), daemon=True)
    reading.start()
    try:
        wait_for(lambda: "injected: pause" in "".join(said) or running.poll() is not None, "the fault")
        assert running.poll() is None and _address(said) is not None, said
        producer = client(runs, "producer-0")
        assert producer is not None
        producer.suspend()
        opened = opens(str(_address(said)), ready=False)
        _watch(opened.page, producer)
        assert running.wait(PATIENCE_S) == 0, said
    finally:
        running.terminate()
        running.wait(PATIENCE_S)
    (path,) = runs.glob("*/findings.json")
    findings = json.loads(path.read_text())
    assert opened.page.locator("#verdict").text_content().startswith("HELD")
    assert _number(opened.page, "sent") == findings["totals"]["sent"] == MESSAGES
    assert _number(opened.page, "acknowledged") == findings["totals"]["acked"]
    assert opened.complaints == []


def _watch(page: Page, producer: psutil.Process) -> None:
    expect(page.locator("#provisional")).to_have_text("provisional until the drain", timeout=BOUND_MS)
    active = page.locator("#faults .active")
    expect(active).to_contain_text("pause", timeout=BOUND_MS)
    early = _number(page, "sent")
    assert 0 < early < MESSAGES
    expect(page.locator("#places")).to_contain_text("orders/1", timeout=BOUND_MS)
    producer.resume()
    expect(active).to_have_count(0, timeout=BOUND_MS)
    expect(page.locator("#provisional")).to_have_text("final: judged", timeout=BOUND_MS)
    assert _number(page, "sent") > early


def _address(said: list[str]) -> str | None:
    found = re.search(r"live at (http://\S+)", "".join(said))
    return found.group(1) if found else None


def _number(page: Page, name: str) -> int:
    figure = page.locator("#counts li").filter(has=page.get_by_text(name, exact=True))
    return int((figure.locator("b").text_content() or "").replace(",", ""))
