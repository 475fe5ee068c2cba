"""The dashboard in a real Chromium: runs are found, watched, replayed and compared, also by keyboard."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from browser.conftest import READY_MS, Opened, Opens
from fakes.isolation import judged
from fakes.run_folders import SECOND, Producer, Site, made, now_ns, served
from kaput.evidence.recorder import Recorder
from kaput.evidence.sealing import seal

expect.set_options(timeout=READY_MS)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """Two runs of the isolated leader, and one in progress."""
    runs = tmp_path_factory.mktemp("pages")
    folder, findings = judged(runs / "made")
    folder.findings_path.write_text(findings.to_json())
    shutil.move(folder.path, runs / "first")
    shutil.rmtree(runs / "made", ignore_errors=True)
    shutil.copytree(runs / "first", runs / "second")
    with served(runs) as found:
        yield found


def _assert_sound(opened: Opened, site: Site) -> None:
    """Nothing complained of, and nothing asked of anybody else."""
    assert opened.complaints == []
    assert all(url.startswith((site.url, "data:")) for url in opened.asked), opened.asked


def _figure(page: Page, name: str) -> Locator:
    return page.locator("#counts li").filter(has=page.get_by_text(name, exact=True)).locator("b")


def _number(page: Page, name: str) -> int:
    return int(_figure(page, name).text_content().replace(",", ""))  # type: ignore[union-attr]


def test_runs_are_found_and_two_are_compared_by_keyboard(site: Site, opens: Opens) -> None:
    """Filter, tick, compare: without a mouse."""
    opened = opens(site.url, ready=False)
    page = opened.page
    page.locator("input[type=search]").focus()
    page.keyboard.type("first")
    page.keyboard.press("Enter")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.goto(site.url)
    for name in ("first", "second"):
        page.get_by_label(f"Compare {name}").focus()
        page.keyboard.press("Space")
    expect(page.locator("#ticked")).to_have_text("2 runs selected.")
    page.get_by_role("button", name="Compare").focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("body[data-ready]", state="attached")
    assert "run=first" in page.url and "run=second" in page.url
    for name in (f"{run}-{row}" for run in (0, 1) for row in ("faults", "rates", "ack")):
        assert (
            page.locator(f"#chart-{name} svg .mark-line path, #chart-{name} svg .mark-rect path").count() > 1
        )
    expect(page.locator("main")).to_contain_text("lost 750")
    _assert_sound(opened, site)
    page.get_by_role("link", name="All runs").click()
    expect(page.locator("tbody tr")).to_have_count(2)


def test_run_list_updates_while_the_page_is_open(site: Site, opens: Opens) -> None:
    """A run that begins while the page is open appears on it."""
    opened = opens(site.url, ready=False)
    expect(opened.page.locator("tbody tr")).to_have_count(2)
    folder = made(site.dashboard.runs.root, "new", "recording")
    expect(opened.page.locator("tbody tr")).to_have_count(3)
    expect(opened.page.locator("tbody")).to_contain_text("recording")
    shutil.rmtree(folder.path)
    expect(opened.page.locator("tbody tr")).to_have_count(2)
    _assert_sound(opened, site)


def test_report_is_drawn_in_an_opaque_origin(site: Site, opens: Opens) -> None:
    """Its charts and its words, behind the policy that shuts it off."""
    opened = opens(f"{site.url}/runs/first")
    assert opened.page.locator("#chart-faults svg").count() == 1
    assert opened.page.evaluate("origin") == "null"
    _assert_sound(opened, site)


def test_a_run_is_watched_from_its_start_to_its_verdict(site: Site, opens: Opens) -> None:
    """Counts that are marked provisional, the fault while it is active, and what came of it."""
    runs = site.dashboard.runs.root
    folder = made(runs, "going", "recording", "leader-isolated-acks-1", started_ns=now_ns(), phase="inject")
    opened = opens(f"{site.url}/runs/going/live", ready=False)
    page = opened.page
    expect(page.locator("#phase")).to_have_text("inject")
    expect(page.locator("#provisional")).to_have_text("provisional until the drain")
    began = folder.read_manifest().started_ns
    producer = Producer(folder)
    with (
        Recorder(folder.path, "faults", "nemesis") as faults,
        Recorder(folder.path, "samples", "s") as samples,
    ):
        producer.send(300, began)
        labels = [("topic", "orders"), ("partition", "0"), ("leader_epoch", "3"), ("isr", "1,2")]
        samples.row(began, "kaput", "leader", labels, 1.0)
        samples.row(began, "kaput", "lag", [("group", "billing"), ("topic", "o"), ("partition", "0")], 42.0)
        samples.flush()
        expect(_figure(page, "sent")).to_have_text("300")
        expect(_figure(page, "acknowledged")).to_have_text("300")
        drawn = page.locator("#chart-rates .mark-line path").first
        expect(drawn).to_have_attribute("aria-label", "s: 0; rate: 300; what: sent")
        expect(page.locator("#places")).to_contain_text("orders/0")
        expect(page.locator("#lags")).to_contain_text("42")
        fault = ("1-isolate", "isolate", "leader-of orders/0", [1], began)
        faults.row(*fault, began + SECOND // 10, None, True, "cut off")
        faults.flush()
        expect(page.locator("#faults .active")).to_contain_text("isolate leader-of orders/0 (broker 1)")
        faults.row(*fault, began + SECOND // 10, began + SECOND, True, "healed again")
        faults.flush()
        expect(page.locator("#faults")).to_contain_text("healed again")
        expect(page.locator("#faults .active")).to_have_count(0)
    producer.close()
    seal(folder)
    folder.write_manifest(folder.read_manifest().model_copy(update={"state": "sealed", "phase": "judge"}))
    expect(page.locator("#phase")).to_have_text("judge")
    shutil.copy(runs / "first" / "findings.json", folder.findings_path)
    expect(page.locator("#verdict")).to_contain_text("lost")
    expect(page.locator("#provisional")).to_have_text("final: judged")
    page.wait_for_selector("body[data-ended=yes]", state="attached")
    _assert_sound(opened, site)
    shutil.rmtree(folder.path)


def test_a_run_is_replayed(site: Site, opens: Opens) -> None:
    """Moved through by keyboard, played at 50x to its end; what is shown at the end is what was judged."""
    opened = opens(f"{site.url}/runs/first/replay")
    page = opened.page
    page.wait_for_selector("body[data-playable]", state="attached")
    findings = json.loads((site.dashboard.runs.root / "first" / "findings.json").read_text())
    assert _number(page, "sent") == 0
    page.locator("#at").focus()
    for _ in range(5):
        page.keyboard.press("PageUp")
    middle = _number(page, "sent")
    expect(page.locator(".readout")).to_have_text(re.compile(r"^33\.00 s · sent 50/s"))
    assert page.locator("#chart-leaders svg").count() == page.locator("#chart-lag svg").count() == 1
    assert 0 < middle < findings["totals"]["sent"]
    page.locator("#speed").select_option("50")
    page.locator("#play").click()
    expect(page.locator("#verdict")).to_be_visible()
    assert _number(page, "sent") == findings["totals"]["sent"]
    assert _number(page, "acknowledged") == findings["totals"]["acked"]
    expect(page.locator("#faults")).to_contain_text("healed: isolate")
    expect(page.locator("#play")).to_have_text("Play")
    _assert_sound(opened, site)


def _drawn(opened: Opened, path: str) -> None:
    """Waits until a page shows all that it will; a replay: its end."""
    page = opened.page
    words = {"replay": "body[data-playable]", "live": "body[data-ended=yes]", "compare": "body[data-ready]"}
    shown = next((sign for word, sign in words.items() if word in path), "tbody tr")
    page.wait_for_selector(shown, state="attached")
    if path.endswith("replay"):
        page.locator("#at").focus()
        page.keyboard.press("End")


@pytest.mark.parametrize(
    ("path", "scheme"),
    [
        pytest.param("/", "light", marks=pytest.mark.long),
        ("/", "dark"),
        ("/runs/first/replay", "light"),
        pytest.param("/runs/first/replay", "dark", marks=pytest.mark.long),
        ("/runs/first/live", "dark"),
        ("/compare?run=first&run=second", "light"),
    ],
)
def test_pages_are_accessible_in_light_and_dark(site: Site, opens: Opens, path: str, scheme: str) -> None:
    """axe finds nothing, contrast included; and nothing is wider than a small screen."""
    opened = opens(site.url + path, width=400, ready=False, color_scheme=scheme)
    page = opened.page
    _drawn(opened, path)
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert opened.complaints == []


@pytest.mark.long  # each page has tests of its own
def test_screenshots(site: Site, opens: Opens, tmp_path: Path) -> None:
    """There is something on each; they are for those who change the pages, too."""
    for path in ("/", "/runs/first/replay", "/compare?run=first&run=second"):
        opened = opens(site.url + path, ready=False)
        _drawn(opened, path)
        picture = tmp_path / f"{path.partition('?')[0].strip('/').replace('/', '-') or 'list'}.png"
        opened.page.screenshot(path=picture, full_page=True)
        assert picture.stat().st_size > 10_000
