"""The control room in a real Chromium, over real brokers: one is broken by hand, and healed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from browser.conftest import READY_MS, Opened, Opens
from driving import Standing
from waiting import eventually

expect.set_options(timeout=READY_MS)
SOON_ENOUGH = ["broker.session.timeout.ms=3000", "broker.heartbeat.interval.ms=500"]


@pytest.fixture(scope="module")
def kaput(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standing]:
    """kaput with a state of its own."""
    standing = Standing(tmp_path_factory.mktemp("c"))
    yield standing
    standing("down", "--all")
    assert eventually(lambda: standing.left() == [])


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the cluster is started, and its folder of runs is made."""
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def address(kaput: Standing, work: Path) -> str:
    """The control room's, with its key; of a cluster with a topic. Broker 1 is the only controller."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(work)
        config = [word for setting in SOON_ENOUGH for word in ("--config", setting)]
        up = kaput.json("up", "--brokers", "2", "--detach", "--dashboard", *config)
    kaput("tool", "topics", "--create", "--topic", "orders", "--replica-assignment", "2:1")
    return str(up["dashboard"])


def _partition(page: Page, column: int) -> str:
    return page.locator("#partitions tr", has_text="orders/0").locator("th, td").nth(column).inner_text()


def _opened(opens: Opens, address: str, **context: Any) -> Opened:
    opened = opens(address, **context)
    expect(opened.page.locator("#partitions")).to_contain_text("orders/0")
    return opened


def test_fault_is_injected_and_healed_by_keyboard(
    kaput: Standing, address: str, opens: Opens, tmp_path: Path
) -> None:
    """Without a mouse; nothing happens before it is confirmed."""
    opened = _opened(opens, address)
    page = opened.page
    assert page.url == address.partition("#")[0]  # the key is not to be read over a shoulder
    expect(page.locator("#partitions tr", has_text="orders/0")).to_contain_text("2, 1")
    leader = _partition(page, 1)
    page.get_by_role("button", name="Inject a fault: leader-of orders/0").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#effect")).to_contain_text("Proven by:")
    page.get_by_role("button", name="Cancel").click()
    assert kaput.json("fault", "list") == []
    page.get_by_role("button", name="Inject a fault: leader-of orders/0").click()
    expect(page.locator("#target")).to_have_value("leader-of orders/0")
    page.get_by_role("button", name="Break it").focus()
    page.keyboard.press("Enter")
    expect(page.locator("#faults .active")).to_contain_text(
        f"active: kill leader-of orders/0 (node {leader})"
    )
    expect(page.locator("#faults .active")).to_contain_text("SIGKILL, process gone after")
    expect(page.locator("#events")).to_contain_text(f"broker {leader} is down")
    expect(page.locator("#events")).to_contain_text(
        re.compile(rf"leader of orders/0: {leader} → 1 \(epoch 1\)")
    )
    expect(page.locator("#partitions tr.wrong")).to_contain_text("under-replicated")
    assert _partition(page, 1) != leader
    expect(page.locator("#chart-rates .mark-rule line")).not_to_have_count(0)
    page.screenshot(path=tmp_path / "broken.png", full_page=True)  # to be looked at, by whoever changes it
    page.get_by_role("button", name="Heal 1-kill").click()
    page.get_by_role("button", name="Heal it").click()
    expect(page.locator("#faults")).to_contain_text("was started again")
    expect(page.locator("#faults .active")).to_have_count(0)
    expect(page.locator("#partitions tr.wrong")).to_have_count(0)
    assert [fault["state"] for fault in kaput.json("fault", "list")] == ["healed"]
    assert opened.complaints == []


def test_without_the_key_the_page_is_read_only(address: str, work: Path, opens: Opens) -> None:
    """It says where to get one. What the page would send is refused without it. Searches are looked for
    where the cluster was started.
    """
    place = address.partition("#")[0]
    page = _opened(opens, place).page
    expect(page.locator("#message")).to_contain_text("open the address that kaput printed")
    assert page.locator(".changes:visible").count() == 0
    asked = "fetch(`${document.body.dataset.cluster}/heal`, {method: 'POST', headers: {'Content-Type': "
    asked += "'application/json'}, body: '{\"fault\": \"1-kill\"}'}).then((answer) => answer.status)"
    assert page.evaluate(asked) == 403
    page.get_by_role("link", name="Searches").click()
    expect(page.locator("main")).to_contain_text(str(work / "searches"))


def test_cross_origin_requests_are_rejected(
    kaput: Standing, address: str, opens: Opens, tmp_path: Path
) -> None:
    """By a request as simple as a browser sends without asking, and by a form."""
    before = kaput.json("fault", "list")
    target = f"{address.partition('#')[0]}/inject"
    wanted = json.dumps({"fault": "kill", "target": "any"})
    evil = tmp_path / "evil.html"
    evil.write_text(
        f"""<form action="{target}" method="post" enctype="text/plain">
        <input name='{wanted[:-1]}, "a' value='": 1}}'></form>
        <script>fetch("{target}", {{method: "POST", mode: "no-cors", body: {wanted!r}}})
        .finally(() => document.forms[0].submit())</script>"""
    )
    opened = opens(evil, ready=False)
    expect(opened.page.locator("body")).to_contain_text("requests from other sites are refused")
    assert opened.asked.count(target) == 2
    assert kaput.json("fault", "list") == before


def test_status_watch_prints_the_same_data_as_json(kaput: Standing, address: str) -> None:
    """A document a second in a pipe; rates, alerts, faults and what changed are in it."""
    lines = kaput.start("status", "--watch", "--json")
    assert lines.stdout is not None
    try:
        now = json.loads(lines.stdout.readline())
    finally:
        lines.terminate()
        lines.communicate()
    assert now["written_per_s"] is not None and isinstance(now["alerts"], list)
    assert {event["kind"] for event in now["events"]} >= {"fault", "election", "isr", "node"}
    assert [fault["state"] for fault in now["fault_history"]] == ["healed"]


@pytest.mark.parametrize("scheme", [pytest.param("light", marks=pytest.mark.long), "dark"])
def test_control_room_is_accessible_on_a_small_screen(address: str, opens: Opens, scheme: str) -> None:
    """axe finds nothing, with its dialog open, too; nothing is wider than the screen."""
    page = _opened(opens, address, width=400, color_scheme=scheme).page
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    page.get_by_role("button", name="Inject a fault…").click()
    expect(page.locator("#effect")).to_contain_text("Proven by:")
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.long  # its siblings: test_new_run_page.py, and unit/dashboard/test_new_runs.py for its end
def test_run_started_on_the_page_ends_with_its_cluster(
    kaput: Standing, address: str, work: Path, opens: Opens
) -> None:
    """The last of these tests: the cluster is gone after it."""
    page = _opened(opens, address).page
    page.get_by_role("link", name="New run").click()
    page.get_by_role("link", name="single-partition-group").first.click()  # one for each tag
    page.wait_for_selector("body[data-ready]", state="attached")
    page.locator("[id='f-workload.producers.0.messages']").fill("100000")
    page.get_by_role("button", name="Start the run").click()
    page.wait_for_url(re.compile(r"/runs/[^/]+-single-partition-group-[^/]+/live$"))
    (folder,) = (work / "runs").iterdir()
    expect(page.locator("#counts")).to_contain_text("sent")
    recorder = psutil.Process(int((folder / ".recording").read_text().split()[0]))
    assert recorder.nice() == 0
    kaput("down", "--all")
    assert not recorder.is_running() and kaput.left() == []
