"""A watch of topics in a real Chromium: its counts are followed, and then its end."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from browser.conftest import READY_MS, Opens
from fakes.run_folders import served

expect.set_options(timeout=READY_MS)


@pytest.mark.parametrize(
    ("width", "scheme"), [(1280, "light"), pytest.param(400, "dark", marks=pytest.mark.long)]
)
def test_a_watch_is_followed_from_the_list_to_its_end(
    opens: Opens, tmp_path: Path, width: int, scheme: str
) -> None:
    """What is missing is found late; axe finds nothing."""
    folder = tmp_path / "runs" / "1-watch" / "watch"
    folder.mkdir(parents=True)
    (folder / "job.json").write_text(json.dumps({"topics": ["bills"]}))

    def write(file: str, **counts: Any) -> None:
        place = {"topic": "bills", "partition": 0, "stored": 1234, **counts}
        status = {"at_ns": time.time_ns(), "complete": True, "places": [place], **counts}
        (folder / file).write_text(json.dumps(status))

    write("status.json", missing=3, late=0)
    with served(tmp_path / "runs") as site:
        opened = opens(site.url, width=width, color_scheme=scheme, ready=False)
        page = opened.page
        expect(page.locator("#watches tbody tr")).to_contain_text("by numbers")
        page.get_by_role("link", name="bills").click()
        expect(page.locator(".figures li", has_text="missing").locator("b")).to_have_text("3")
        write("final.json", missing=1, late=2)
        expect(page.locator(".figures li", has_text="late").locator("b")).to_have_text("2")
        expect(page.locator(".tag")).to_have_text("ended")
        expect(page.locator("tbody tr")).to_contain_text("bills/0")
        found = Axe().run(page)
        assert found.violations_count == 0, found.generate_report()
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert opened.complaints == []
