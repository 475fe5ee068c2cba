"""A search on its page in a real Chromium: what it has tried and found, while it goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import expect

from browser.conftest import READY_MS, Opens
from fakes.run_folders import Site, served
from fakes.trials import World
from kaput.search.store import SearchSettings, SearchStore, create_search
from kaput.search.summary import Searches
from unit.search.test_searching import SPACE_OF, loses, search

expect.set_options(timeout=READY_MS)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SearchStore]:
    """Of a search that has only begun."""
    with closing(
        SearchStore(create_search(tmp_path / "searches", SPACE_OF, SearchSettings("mine", 1)))
    ) as found:
        yield found


@pytest.fixture
def site(store: SearchStore, tmp_path: Path) -> Iterator[Site]:
    """A dashboard over its folder."""
    (tmp_path / "runs").mkdir()
    with served(tmp_path / "runs", searches=Searches(store.folder.parent)) as found:
        yield found


@pytest.mark.parametrize(
    ("width", "scheme"), [(1280, "light"), pytest.param(400, "dark", marks=pytest.mark.long)]
)
def test_a_search_is_followed_to_its_find(
    site: Site, store: SearchStore, opens: Opens, tmp_path: Path, width: int, scheme: str
) -> None:
    """Figures, the chart, the find and the way to what was written of it; axe finds nothing."""
    opened = opens(f"{site.url}/searches/{store.folder.name}", width=width, color_scheme=scheme)
    page = opened.page
    expect(page.locator("h1")).to_have_text("A space")
    expect(page.locator("#no-finds")).to_be_visible()
    search(store, World(loses))
    for each in store.experiments("draw"):  # that world has no evidence to tell signatures from
        store.save(replace(each, signatures=(f"seen-{each.id // 2}",)))
    (find,) = store.finds("found")
    (store.folder / "finds" / find.name).mkdir(parents=True)
    (store.folder / "finds" / find.name / "bug-report.md").write_text("the text of a bug report")
    store.save_find(find)
    expect(page.locator("#finds tr", has_text="confirmed")).to_contain_text("bug report")
    expect(page.locator("#figures li", has_text="signatures seen").locator("b")).not_to_have_text("0")
    expect(page.locator("#chart-coverage .mark-line path")).to_have_count(2)
    expect(page.locator("#chart-coverage .mark-rule line")).not_to_have_count(0)
    assert page.locator("#latest tr").count() > 3
    page.screenshot(path=tmp_path / "search.png", full_page=True)  # to be looked at, by whoever changes it
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert opened.complaints == []
    page.get_by_role("link", name="bug report").click()
    expect(page.locator("body")).to_have_text("the text of a bug report")
    page.goto(f"{site.url}/searches")
    expect(page.locator("tbody tr")).to_contain_text("A space")
    found = Axe().run(page)
    assert found.violations_count == 0, found.generate_report()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
