"""A run that is started on a page, in a real Chromium: a form is filled in, a real run is stopped."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from browser.conftest import READY_MS, Opens
from driving import Standing
from waiting import eventually

expect.set_options(timeout=READY_MS)


@pytest.fixture(scope="module")
def kaput(tmp_path_factory: pytest.TempPathFactory) -> Standing:
    """kaput with a state of its own."""
    return Standing(tmp_path_factory.mktemp("n"))


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An empty folder of runs."""
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def address(kaput: Standing, runs: Path) -> Iterator[str]:
    """Of a dashboard over it, with its key."""
    process = kaput.start("dashboard", "--runs", str(runs), "--port", "0")
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.send_signal(signal.SIGINT)
        process.communicate()
        assert eventually(lambda: kaput.left() == [])


def test_a_run_is_started_watched_and_stopped(address: str, runs: Path, opens: Opens, tmp_path: Path) -> None:
    """From the list of scenarios; a mistake is shown at its field and starts nothing."""
    opened = opens(address, ready=False)
    page = opened.page
    page.get_by_role("link", name="New run").click()
    page.get_by_label("Find").fill("caused by the lab itself")
    expect(page.locator("#found")).to_have_text("1 found")
    page.get_by_role("link", name="noop").click()
    page.wait_for_selector("body[data-ready]", state="attached")
    messages = page.locator("[id='f-workload.producers.0.messages']")
    expect(messages).to_have_value("5000")
    messages.fill("many")
    page.get_by_role("button", name="Start the run").focus()
    page.keyboard.press("Enter")
    field = page.locator("[data-key='workload.producers.0.messages']")
    expect(field.locator(".mistake")).to_have_text("'many' is not valid here; write a whole number")
    expect(messages).to_be_focused()
    assert list(runs.iterdir()) == []
    page.screenshot(path=tmp_path / "form.png", full_page=True)  # to be looked at, by whoever changes it
    messages.fill("100000")
    page.get_by_label("seed").fill("7")
    page.get_by_role("button", name="Start the run").focus()
    expect(page.locator("#command")).to_have_text(
        "kaput run noop --set workload.producers.0.messages=100000 --seed 7"
    )
    assert page.locator(".mistake").count() == 0
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/runs/[^/]+-noop-[^/]+/live$"))
    (folder,) = runs.iterdir()
    expect(page.locator("#counts")).to_contain_text("sent")
    expect(page.locator("#progress")).to_have_attribute("max", "105000")
    recorder = int((folder / ".recording").read_text().split()[0])
    assert psutil.Process(recorder).nice() == 0  # the dashboard is behind all runs; what it starts is not
    page.get_by_role("button", name="Stop this run").click()
    expect(page.get_by_role("button", name="Stopping the run")).to_be_disabled()
    assert eventually(lambda: not psutil.pid_exists(recorder))
    expect(page.locator("#phase")).to_have_text("recorder dead")
    assert opened.complaints == []


@pytest.mark.parametrize("scheme", ["light", pytest.param("dark", marks=pytest.mark.long)])
def test_form_is_accessible_on_a_small_screen(address: str, opens: Opens, scheme: str) -> None:
    """axe finds nothing, with everything unfolded and a mistake; nothing is wider than the screen."""
    for path in ("/new", "/new/second-kill-at-election"):
        page = opens(address.replace("/#", f"{path}#"), width=400, color_scheme=scheme).page
        page.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
        if path != "/new":
            page.locator("[id='f-faults.0.at']").fill("never")
            page.keyboard.press("Tab")
            expect(page.locator(".mistake")).to_have_count(1)
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_without_the_key_the_form_is_read_only(address: str, opens: Opens) -> None:
    """The form is there, checks what is written, and says how to start it."""
    page = opens(address.partition("/#")[0] + "/new/noop").page
    expect(page.locator("#keyless")).to_contain_text("open the address that kaput printed")
    assert page.locator(".changes:visible").count() == 0
    asked = "fetch('/new/noop/start', {method: 'POST', headers: {'Content-Type': 'application/json'}, "
    asked += "body: '{}'}).then((answer) => answer.status)"
    assert page.evaluate(asked) == 403
