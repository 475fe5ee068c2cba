"""`kaput docs`: the documentation of the installed version, as pages for a browser.

`make site` writes the pages into the package, `make wheel` ships new ones. They need no network. A checkout
without them has docs/*.md.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from kaput.cli.options import Json
from kaput.cli.verbs import print_json
from kaput.core import VERSION, first_few
from kaput.errors import LabError, UsageError
from kaput.scenario.nearest import nearest

_WITH_KEYS = ("FAULTS", "SCENARIO", "EXPECT")
_IN_MARKDOWN = r"^#+ (?P<id>(?P<title>[^:\n]+).*)|^\| `(?P<key>[^`]+)` \|"
_IN_HTML = r'<h[1-3] id="(?P<id>[^"]+)">(?P<title>[^<:]+)|<tr>\s*<td><code>(?P<key>[^<]+)</code></td>'
SITE, SOURCES = Path(__file__).parents[1] / "site", Path(__file__).parents[3] / "docs"


def docs_command(
    name: Annotated[
        str | None,
        Argument(
            metavar="NAME", help="Page, PAGE#ANCHOR, word of the glossary, fault, or key of a scenario."
        ),
    ] = None,
    *,
    open_browser: Annotated[bool, Option("--open", help="Open it in a browser.")] = False,
    json: Json = False,
) -> None:
    """Print where the documentation of this version is, or open it.

    The pages are files: they need no network.

    Example: kaput docs --open

    Example: kaput docs faults

    Example: kaput docs loss-window --open
    """
    page, anchor = _found(name) if name else (_page("index"), "")
    address = f"{page}{anchor}"
    if json:
        print_json({"version": VERSION, "path": str(page), "anchor": anchor[1:]})
    else:
        typer.echo(address)
    if open_browser:
        import webbrowser

        if not webbrowser.open(f"{page.as_uri()}{anchor}"):
            raise LabError(f"no browser was found; open {address} in one")


def _page(stem: str) -> Path:
    """A page of the site; in a checkout where it was not built, the file that it is made from."""
    sources = SOURCES / f"{'README' if stem == 'index' else stem}.md"
    page = next((each for each in (SITE / f"{stem}.html", sources) if each.exists()), None)
    if page is None:
        raise LabError(f"there are no pages in {SITE}; in a checkout, 'make site' builds them from docs/*.md")
    return page


def _found(name: str) -> tuple[Path, str]:
    """The page, and `#anchor`, that is named or has that word of the glossary. Raises UsageError."""
    glossary = _page("GLOSSARY")
    pages = {
        _key(path.stem): path
        for path in glossary.parent.rglob(f"*{glossary.suffix}")
        if path.stem != "index" and glossary.parent / "files" not in path.parents
    }
    stem, _, anchor = name.partition("#")
    page = pages.get(_key(stem.lower().removesuffix(".md")))
    if page is None and not anchor:
        page, anchor = glossary, _slug(name)
        words = _anchors(glossary)
        if anchor not in words:
            for stem in _WITH_KEYS:
                if section := _section_with(_page(stem), name):
                    return _page(stem), f"#{section}"
            near = nearest(name.lower(), [*pages, *words], count=3, cutoff=0.75)
            hint = f"did you mean {' or '.join(near)}?" if near else _mentions(name, glossary)
            raise UsageError(f"{name!r} is neither a page nor a word of the glossary; {hint}")
    elif page is None or (anchor and anchor not in _anchors(page)):
        raise UsageError(f"{name!r} is on no page; 'kaput docs' has the start page")
    return page, f"#{anchor}" if anchor else ""


def _key(stem: str) -> str:
    return re.sub("[- ]", "_", stem.lower())


def _mentions(text: str, glossary: Path) -> str:
    """The pages next to the glossary that have it somewhere, as a hint."""
    word = re.compile(rf"(?<!\w){re.escape(text)}(?!\w)", re.IGNORECASE)
    pages = sorted(glossary.parent.glob(f"*{glossary.suffix}"))
    found = [path.stem for path in pages if word.search(path.read_text(encoding="utf-8"))]
    return f"in the text of {first_few(found, 4)}" if found else "'kaput docs' has the start page"


def _section_with(page: Path, word: str) -> str | None:
    """The anchor of the section with that title, or with that word in the first column of a table."""
    anchor, pattern = "", _IN_HTML if page.suffix == ".html" else _IN_MARKDOWN
    for found in re.finditer(pattern, page.read_text(encoding="utf-8"), re.MULTILINE):
        anchor = _slug(found["id"]) if found["id"] else anchor
        if word.lower() in ((found["title"] or "").lower(), found["key"]):
            return anchor
    return None


def _anchors(page: Path) -> list[str]:
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".html":
        return re.findall(r' id="([^"]+)"', text)
    titles = re.findall(r"^(?:#+|\|) ([^|\n]+)", text, re.MULTILINE)
    return [_slug(name) for title in titles for name in title.partition(" [")[0].split(", ")]


def _slug(text: str) -> str:
    return re.sub(r"[^\w-]+", "-", text.lower()).strip("-")
