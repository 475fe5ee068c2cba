"""One Chromium for all tests of pages, and pages of a run that was written by hand."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, sync_playwright

from browser.chromium import check_driver, launched
from fakes.isolation import judged
from kaput.report.run_report import to_html
from system_packages import Missing

READY_MS = 300_000  # a bound for a machine that is busy


def until(page: Page, condition: str) -> None:
    """Waits for an expression: playwright's own wait asks again by `eval`, which a page may forbid."""
    limit = time.monotonic() + READY_MS / 1000
    while not page.evaluate(condition):
        assert time.monotonic() < limit, f"never true: {condition}"
        page.wait_for_timeout(50)


@dataclass
class Opened:
    """A page in a browser, and whatever it complained of or asked of the network."""

    page: Page
    complaints: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


class Opens:
    """Opens pages, each in a context of its own."""

    def __init__(self, browser: Browser) -> None:
        self._browser = browser
        self._windows: list[BrowserContext] = []

    def __call__(self, path: Path | str, width: int = 1280, ready: bool = True, **context: Any) -> Opened:
        """The page at a path or an address, its charts drawn.

        `context`: playwright's (color_scheme, java_script_enabled ...).
        """
        window = self._browser.new_context(viewport={"width": width, "height": 900}, **context)
        self._windows.append(window)
        opened = Opened(window.new_page())
        page = opened.page
        page.set_default_timeout(READY_MS)
        page.on("console", lambda said: opened.complaints.append(f"{said.type}: {said.text}"))
        page.on("pageerror", lambda error: opened.complaints.append(str(error)))
        page.on("dialog", lambda dialog: (opened.complaints.append(dialog.message), dialog.dismiss()))
        page.on("request", lambda request: opened.asked.append(request.url))
        page.goto(path.as_uri() if isinstance(path, Path) else path)
        if ready:
            page.wait_for_selector("body[data-ready]", state="attached")
        return opened

    def close(self) -> None:
        """Closes all of them: pages of a dashboard would ask for it for ever."""
        for window in self._windows:
            window.close()


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """A Chromium; where none can be had, the tests that need it are skipped, and say why."""
    try:
        check_driver()
        with sync_playwright() as playwright:
            found = launched(playwright)
            yield found
            found.close()
    except Missing as why:
        pytest.skip(str(why))


@pytest.fixture
def opens(browser: Browser) -> Iterator[Opens]:
    """Opens pages, for one test."""
    with closing(Opens(browser)) as found:
        yield found


@pytest.fixture(scope="module")
def opens_for_all(browser: Browser) -> Iterator[Opens]:
    """The same for all tests of a file."""
    with closing(Opens(browser)) as found:
        yield found


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """report.html of the leader that is cut off."""
    folder, findings = judged(tmp_path_factory.mktemp("isolation"))
    path = folder.path / "report.html"
    path.write_text(to_html(folder, findings), encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def _wide(report: Path, opens_for_all: Opens) -> Opened:
    return opens_for_all(report)


@pytest.fixture
def wide(_wide: Opened) -> Iterator[Opened]:
    """That page, as wide as a screen: one for many tests, as it was opened."""
    yield _wide
    page = _wide.page
    page.mouse.move(5, 5)
    page.locator(".chartarea").focus()
    page.keyboard.press("Escape")
    page.evaluate("document.activeElement.blur(); scrollTo(0, 0); getSelection().empty();")
    until(page, "document.querySelector('#chart-faults').textContent.includes('60')")
