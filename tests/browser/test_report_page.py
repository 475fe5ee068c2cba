"""report.html in a real Chromium: it opens, is drawn, answers to mouse and keyboard, and prints."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, expect

from browser.conftest import READY_MS, Opened, Opens, until

expect.set_options(timeout=READY_MS)
CHARTS = ("faults", "rates", "ack", "end_to_end", "leaders", "isr", "owners", "lag", "recovery-0")
_MARKS = ".mark-rect path, .mark-line path, .mark-area path, .mark-rule line, .mark-symbol path"
_CLOSE = "!document.querySelector('#chart-faults').textContent.includes('60')"
_WHOLE = "document.querySelector('#chart-faults').textContent.includes('60')"
_COLORS = """() => [getComputedStyle(document.body).backgroundColor,
    getComputedStyle(document.querySelector('#chart-faults .role-axis-label text')).fill]"""
_FIGURES = """[...document.querySelectorAll('figure')].map(
    (one) => [getComputedStyle(one).breakInside, one.offsetHeight])"""


def _seconds(page: Page) -> list[float]:
    """What is written to the axis of time of the first row."""
    texts = page.locator("#chart-faults .role-axis-label text").all_text_contents()
    return [float(text) for text in texts if re.fullmatch(r"[\d.]+", text)]


def _at(page: Page, share: float) -> tuple[float, float]:
    """Where that share of the run lies on the screen, in the row of rates."""
    page.locator("#chart-rates").scroll_into_view_if_needed()
    box = page.locator("#chart-rates .background").first.bounding_box()
    assert box is not None
    return box["x"] + box["width"] * share, box["y"] + box["height"] / 2


def _brightness(color: str) -> float:
    return sum(float(part) for part in re.findall(r"[\d.]+", color)[:3]) / 3


def _opened_everything(page: Page) -> None:
    page.evaluate("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    # What scrolls is made reachable when it has been laid out.
    page.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")


@pytest.mark.parametrize(
    ("width", "scheme", "rules"),
    [
        (1280, "light", None),
        pytest.param(1280, "dark", ["color-contrast"], marks=pytest.mark.long),
        pytest.param(400, "light", ["wcag2a"], marks=pytest.mark.long),
    ],
)
def test_report_renders_without_errors_and_is_accessible(
    report: Path, opens: Opens, width: int, scheme: Any, rules: list[str] | None
) -> None:
    """Without a complaint or a request; each chart has marks and as much width as there is, nothing sticks
    out; axe-core finds nothing, also when all stories and tables are opened. `rules`: what is different
    there; all take long.
    """
    opened = opens(report, width, color_scheme=scheme)
    page = opened.page
    assert opened.complaints == [] and opened.asked == [report.as_uri()]
    assert page.locator("body").get_attribute("data-ready") == "yes"
    for name in CHARTS:
        assert page.locator(f"#chart-{name}").locator(_MARKS).count() > 0, name
        drawn = page.locator(f"#chart-{name} svg").bounding_box()
        assert drawn is not None and width * 0.7 < drawn["width"] <= width
    _opened_everything(page)
    found = Axe().run(page, options={"resultTypes": ["violations"]} | ({"runOnly": rules} if rules else {}))
    assert found.violations_count == 0, found.generate_report()
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.context.close()


def test_first_screen_shows_verdict_cause_and_times(wide: Opened) -> None:
    """Verdict, cause and times stand on the first screen."""
    top = wide.page.locator("header").inner_text()
    for said in (
        "HELD, with permitted loss",
        "750 acknowledged messages lost",
        "Broker 1 alone acknowledged every message lost in orders/0, until 45.0 s",
        "broker 2 was elected at 24.0 s, had none of them",
        "isolate of leader-of orders/0 (broker 1) at 15.0 s for 30.0 s: confirmed",
    ):
        assert said in top
    timeline = wide.page.locator("#chart-faults").bounding_box()
    assert timeline is not None and timeline["y"] + timeline["height"] < 900


def test_charts_share_one_time_axis(wide: Opened) -> None:
    """The same moment lies at the same place in every row."""
    edges = set()
    for name in CHARTS[:-1]:
        box = wide.page.locator(f"#chart-{name} .background").first.bounding_box()
        assert box is not None
        edges.add((round(box["x"]), round(box["x"] + box["width"])))
    assert len(edges) == 1


def test_readout_follows_the_mouse(wide: Opened) -> None:
    """The mouse reads it, and leaves nothing behind."""
    page, readout = wide.page, wide.page.locator(".readout")
    expect(readout).to_be_hidden()
    page.mouse.move(*_at(page, 29.5 / 66))
    said = r"^29\.\d\d s · sent 50/s .* of which lost 25/s .* isolate broker 1 .* orders/0: broker 2, epoch 1"
    expect(readout).to_have_text(re.compile(said))
    expect(page.locator(".cursor")).to_be_visible()
    page.mouse.move(5, 5)
    expect(readout).to_be_hidden()
    assert wide.complaints == []


def test_dragging_zooms_every_chart(wide: Opened) -> None:
    """A drag, the buttons, and back with a double click."""
    page = wide.page
    assert max(_seconds(page)) == 60
    page.mouse.move(*_at(page, 0.3))
    page.mouse.down()
    page.mouse.move(*_at(page, 0.5), steps=4)
    page.mouse.up()
    until(page, _CLOSE)
    low, high = min(_seconds(page)), max(_seconds(page))
    assert 19 < low < high < 34
    page.locator("#chart-rates").dblclick()
    until(page, _WHOLE)
    page.get_by_role("button", name="isolate broker 1").click()
    until(page, _CLOSE)
    assert 10 <= min(_seconds(page)) < 16 and 44 < max(_seconds(page)) < 51


def test_timeline_is_fully_usable_by_keyboard(wide: Opened) -> None:
    """Tab reaches the timeline; arrows move, + looks closer, Escape goes back."""
    page, readout = wide.page, wide.page.locator(".readout")
    page.locator(".skip").focus()
    for _ in range(40):
        if page.evaluate("document.activeElement.classList.contains('chartarea')"):
            break
        page.keyboard.press("Tab")
    page.keyboard.press("Home")
    expect(readout).to_have_text(re.compile(r"^0\.00 s"))
    for _ in range(25):
        page.keyboard.press("ArrowRight")
    expect(readout).to_have_text(re.compile(r"^33\.0"))
    page.keyboard.press("+")
    page.keyboard.press("+")
    until(page, _CLOSE)
    assert 24 < min(_seconds(page)) < 33 < max(_seconds(page)) < 42
    page.keyboard.press("Escape")
    until(page, _WHOLE)
    expect(readout).to_be_hidden()


def test_fate_cell_opens_message_histories_by_keyboard(wide: Opened) -> None:
    """By keyboard: each of ten messages has its own."""
    page = wide.page
    page.locator("#fates td.bad summary").focus()
    page.keyboard.press("Enter")
    stories = page.locator("#fates td.bad .stories li")
    expect(stories.first).to_contain_text("producer 0's message 750 was acknowledged")
    assert stories.count() == 10
    page.keyboard.press("Enter")
    expect(stories.first).to_be_hidden()


def test_terms_have_tooltips_on_focus_and_hover(wide: Opened) -> None:
    """On focus, although what is focused is scrolled into view, and on hover; Escape takes it away."""
    page = wide.page
    page.locator(".figures dfn", has_text="until a new leader").focus()
    page.mouse.wheel(0, 40)
    until(page, "scrollY > 0")
    expect(page.get_by_role("tooltip")).to_contain_text("and a higher epoch, on a partition that the fault")
    page.keyboard.press("Escape")
    expect(page.get_by_role("tooltip")).to_have_count(0)
    page.locator(".figures dfn").first.hover()
    expect(page.get_by_role("tooltip")).to_contain_text("the client received an acknowledgement")
    assert wide.complaints == []


def test_dark_mode_follows_the_system(wide: Opened) -> None:
    """Page and charts follow the system, also when it changes its mind."""
    background, text = (_brightness(color) for color in wide.page.evaluate(_COLORS))
    assert background > 200 and text < 50
    wide.page.emulate_media(color_scheme="dark")
    background, text = (_brightness(color) for color in wide.page.evaluate(_COLORS))
    wide.page.emulate_media(color_scheme="light")
    assert background < 50 and text > 200


def test_it_prints_on_a4(wide: Opened) -> None:
    """On four pages or so; no chart is cut or wider than the paper, and the screen is as it was then."""
    page = wide.page
    width = page.locator("#chart-faults svg").evaluate("(svg) => svg.clientWidth")
    pdf = page.pdf(prefer_css_page_size=True)
    sizes = re.findall(rb"/MediaBox ?\[0 0 ([\d.]+) ([\d.]+)\]", pdf)
    assert len(re.findall(rb"/Type ?/Page\b", pdf)) in (3, 4, 5)
    assert {(round(float(wide)), round(float(high))) for wide, high in sizes} == {(595, 842)}
    again = f"document.querySelector('#chart-faults svg').clientWidth === {width}"
    until(page, again)
    page.emulate_media(media="print")
    page.set_viewport_size({"width": 703, "height": 1000})
    assert all(inside == "avoid" and high < 400 for inside, high in page.evaluate(_FIGURES))
    assert page.evaluate("document.documentElement.scrollWidth") <= 703
    page.emulate_media(media="screen")
    page.set_viewport_size({"width": 1280, "height": 900})
    until(page, again)
    assert wide.complaints == []


def test_tables_are_shown_without_javascript(report: Path, opens: Opens) -> None:
    """The verdict, a sentence in place of charts, and every figure."""
    opened = opens(report, ready=False, java_script_enabled=False)
    page = opened.page
    expect(page.locator("h1")).to_contain_text("HELD")
    expect(page.locator("p.note", has_text="need JavaScript")).to_be_visible()
    page.locator("summary", has_text="The timeline as a table").click()
    expect(page.locator(".table tfoot").first).to_contain_text("3,000")
    assert opened.complaints == []
    page.context.close()
