"""The documentation as a site: every link and anchor, nothing from elsewhere; opened as files in a browser,
it fits a screen and a telephone, is searched and dark; and `kaput docs` finds its pages.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest
import typer.main
from playwright.sync_api import Page, TimeoutError
from typer.testing import CliRunner

import kaput
from browser.conftest import READY_MS, Opens, until
from fakes.program import app
from kaput.cli import docs
from kaput.errors import LabError, UsageError
from kaput.report.render.html import glossary
from kaput.scenario.model import Scenario

ROOT = Path(__file__).parents[2]
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, as `make site` builds it."""
    target = tmp_path_factory.mktemp("site")
    mkdocs = Path(sys.executable).with_name("mkdocs")
    built = subprocess.run(
        [mkdocs, "build", "--strict", "--site-dir", target],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return target


def _pages(site: Path) -> list[Path]:
    return sorted(site.rglob("*.html"))


@cache
def _html(page: Path) -> str:
    return page.read_text(encoding="utf-8")


@cache
def _anchors(page: Path) -> set[str]:
    return set(re.findall(r'\bid="?([^\s">]+)', _html(page)))


def _links(page: Path) -> list[tuple[str, str]]:
    """The tag and the target of everything that a page links to or loads."""
    return re.findall(r"<(\w+)\b[^>]*?\s(?:href|src|srcset)=\"?([^\s\">]+)", _html(page))


def test_links_and_anchors_lead_somewhere(site: Path) -> None:
    """To a file of the site, and in it to an anchor that is there."""
    wrong = []
    for page in _pages(site):
        for _, link in _links(page):
            name, _, anchor = unquote(link).partition("#")
            target = page.parent / name if name else page
            if re.match(r"(https?|mailto|data|javascript):", link):
                continue
            if not target.exists() or (anchor and anchor not in _anchors(target.resolve())):
                wrong.append(f"{page.relative_to(site)}: {link}")
    assert wrong == []


def test_nothing_is_loaded_from_elsewhere(site: Path) -> None:
    """No script, style, font or picture; links that a reader may follow are another matter."""
    loaded = {link for page in _pages(site) for tag, link in _links(page) if tag != "a"}
    assert {link for link in loaded if re.match(r"(https?:)?//", link)} == set()
    styles = "".join(path.read_text(encoding="utf-8") for path in site.rglob("*.css"))
    assert re.findall(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", styles) == []


def test_each_word_of_the_glossary_has_an_anchor(site: Path) -> None:
    """Which reports and pages can name."""
    anchors = _anchors(site / "GLOSSARY.html")
    words = [word for word in glossary() if word not in ("word", "---")]
    assert len(words) > 200
    assert [word for word in words if re.sub(r"[^\w-]+", "-", word.lower()).strip("-") not in anchors] == []


def test_the_reference_has_every_verb_key_and_name(site: Path) -> None:
    verbs = _html(site / "reference" / "COMMANDS.html")
    assert [name for name in typer.main.get_command(app).commands if f'id="kaput-{name}"' not in verbs] == []
    keys = _html(site / "SCENARIO.html")
    assert [
        key for key in Scenario.model_json_schema()["properties"] if f"<code>{key}</code>" not in keys
    ] == []
    names = _html(site / "reference" / "PYTHON_API.html")
    assert [name for name in ("kaput.run", "kaput.Lab", "Lab.fault", "Run.ledger") if name not in names] == []
    assert f"kaput {kaput.__version__}" in names


def test_files_that_pages_link_to_are_pages(site: Path) -> None:
    """A stranger with an installed kaput copies the clients from there; notebooks are cells, not JSON."""
    clients = re.sub(r"<[^>]+>", "", _html(site / "files" / "clients" / "java.html"))
    assert "public final class KaputLab" in clients and "final class Json" in clients
    assert "package lab" in re.sub(r"<[^>]+>", "", _html(site / "files" / "clients" / "go.html"))
    notebook = _html(site / "files" / "examples" / "notebook.ipynb.html")
    assert "The ledger has every message exactly once" in notebook and "cell_type" not in notebook


def test_wide_lists_of_commands_wrap(site: Path) -> None:
    """Each comment is below its command: it was beyond the edge."""
    recipes = _html(site / "RECIPES.html")
    assert "<dt><code>kaput run leader-kill-acks-all</code></dt><dd>run, judge, report</dd>" in recipes


def test_decisions_have_their_numbers(site: Path) -> None:
    """Markdown makes a list of its own, and other numbers, of a number with a dot."""
    listed = re.findall(r"<li>\s*(\d+): <a", _html(site / "decisions" / "index.html"))
    assert len(listed) >= 80 and "<ol>" not in _html(site / "decisions" / "index.html")


@pytest.mark.long  # half of this file's time
def test_pages_fit_a_screen_and_a_telephone(site: Path, opens: Opens) -> None:
    """No page is wider than the window, and none asks for anything but files or complains."""
    opened = opens(site / "index.html", ready=False)
    wide = []
    for path in _pages(site):
        if path.parent.name == "decisions":
            continue
        opened.page.goto(path.as_uri(), wait_until="load")
        for width in (1280, 390):
            opened.page.set_viewport_size({"width": width, "height": 900})
            # What moves into its place after a change of width is given some time for it.
            fits = f"innerWidth === {width} && document.documentElement.scrollWidth <= {width}"
            try:
                opened.page.wait_for_function(fits, timeout=READY_MS)
            except TimeoutError:
                wide.append(f"{path.relative_to(site)} at {width}")
                break
    assert wide == []
    assert opened.complaints == []
    assert [address for address in opened.asked if not address.startswith(("file:", "data:", "about:"))] == []


def test_search_works_in_pages_that_are_files(site: Path, opens: Opens) -> None:
    opened = opens(site / "index.html", ready=False)
    opened.page.locator("input.md-search__input").fill("zombie member")
    first = opened.page.locator(".md-search-result__item a").first
    first.wait_for()
    assert "html" in str(first.get_attribute("href"))


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_follow_the_scheme_of_the_system(site: Path, opens: Opens, scheme: str) -> None:
    """And the button changes it."""
    page = opens(site / "project" / "index.html", ready=False, color_scheme=scheme).page
    _await_brightness(page, light=scheme == "light")
    picture = page.locator("article img").first.evaluate("image => image.currentSrc")
    assert ("dark" in picture) is (scheme == "dark")
    page.locator("[data-md-component=palette] label:visible").click()
    _await_brightness(page, light=scheme != "light")


def _await_brightness(page: Page, light: bool) -> None:
    red = "+getComputedStyle(document.body).backgroundColor.match(/[0-9]+/)[0]"
    until(page, f"({red} > 128) === {str(light).lower()}")


def test_kaput_docs_prints_the_page(site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The start page, a page, a word of the glossary; else what is near."""
    monkeypatch.setattr(docs, "SITE", site)

    def printed(*words: str) -> str:
        shown = CliRunner().invoke(app, ["docs", *words], catch_exceptions=False)
        return shown.output.strip()

    assert printed() == str(site / "index.html")
    assert printed("faults") == str(site / "FAULTS.html")
    assert printed("other languages") == str(site / "OTHER_LANGUAGES.html")
    assert printed("ci#exit-status") == f"{site / 'CI.html'}#exit-status"
    assert printed("commands#kaput-run") == f"{site / 'reference' / 'COMMANDS.html'}#kaput-run"
    assert printed("loss window") == f"{site / 'GLOSSARY.html'}#loss-window"
    for wrong, hint in (
        ("java", "in the text of"),
        ("unsen", "did you mean unseen"),
        ("ci#exit-statuses", "on no page"),
    ):
        with pytest.raises(UsageError, match=hint):
            printed(wrong)
    monkeypatch.setattr(docs, "SITE", site / "elsewhere")
    assert printed("faults") == str(docs.SOURCES / "FAULTS.md")
    monkeypatch.setattr(docs, "SOURCES", site / "elsewhere")
    with pytest.raises(LabError, match="make site"):
        printed()
