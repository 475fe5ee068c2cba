"""Renders documents as HTML: one file with its own style, scripts and data, which loads nothing.

The template escapes all text. Marked as safe are only the project's own scripts and styles, the Vega bundle,
and JSON that cannot close its script element.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from contextlib import suppress
from functools import cache
from importlib.metadata import version
from importlib.resources import files
from pathlib import Path

from jinja2 import BaseLoader, ChoiceLoader, Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from kaput.cache import cache_dir
from kaput.errors import LabError
from kaput.evidence.folder import replace_text
from kaput.report.document import Block, Chart, Document, Term, Timelines, every_block, parts

_SIGNS = {"held": "✓", "loss": "✓", "violated": "✗", "inconclusive": "?"}


def render(document: Document) -> str:
    charts = chart_data(block for section in document.sections for block in section.blocks)
    return (
        environment()
        .get_template("document.html.j2")
        .render(
            document=document,
            sign=_SIGNS.get(document.head.tone, "?"),
            charts=charts,
            bundle=Markup(vega_bundle()) if charts else "",
            style=Markup(template_file("report.css") + template_file("charts.css")),
            charts_script=Markup(template_file("charts.js")),
            glossary_script=Markup(template_file("glossary.js")),
        )
    )


def environment(*loaders: BaseLoader) -> Environment:
    """Jinja that escapes all text, with the templates of blocks.html.j2 and of `loaders`."""
    made = Environment(
        loader=ChoiceLoader([*loaders, PackageLoader("kaput.report.render")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.tests["explained"] = lambda part: isinstance(part, Term) and part.word in glossary()
    made.filters.update(kind=lambda block: type(block).__name__, meaning=_meaning, parts=parts)
    return made


def _meaning(term: Term) -> str:
    return glossary()[term.word].replace("`", "")


def chart_data(blocks: Iterable[Block]) -> Markup | None:
    """The data for charts.js, as JSON that is safe in a script element; None without charts."""
    found = list(every_block(blocks))
    others = {
        block.name: {k: v for k, v in block.spec().items() if k != "$schema"}
        for block in found
        if isinstance(block, Chart)
    }
    timelines = next((block for block in found if isinstance(block, Timelines)), None)  # a page has one clock
    if timelines is None and not others:
        return None
    begin, end, runs = (timelines.begin, timelines.end, timelines.runs) if timelines else (0, 1, [])
    data = {"begin": begin, "end": end, "runs": [run.drawn for run in runs], "others": others}
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    # So that no text can open or close an element.
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


@cache
def glossary() -> dict[str, str]:
    """The glossary by word, from docs/GLOSSARY.md (GLOSSARY.md here is a link to it)."""
    meanings: dict[str, str] = {}
    for line in template_file("../GLOSSARY.md").splitlines():
        words, _, meaning = line.strip("| ").partition(" | ")
        for word in words.split(", ") if line.startswith("| ") else ():
            meanings.setdefault(word.partition(" [")[0], meaning)
    return meanings


@cache
def template_file(name: str) -> str:
    """The text of a file in templates/."""
    return (files("kaput.report.render") / "templates" / name).read_text(encoding="utf-8")


_LEAST_CHARS = 100_000  # anything shorter is not a complete bundle


def vega_bundle() -> str:
    """The script that draws charts: Vega, Vega-Lite and vega-embed, bundled by vl-convert without a network.
    Bundling takes seconds, so the bundle of each version is kept in the user's cache; if the cache is not
    writable, the bundle is made each time.
    """
    cached = _cached()
    if cached is not None:
        with suppress(OSError, UnicodeDecodeError):
            text = cached.read_text(encoding="utf-8")
            if len(text) > _LEAST_CHARS:
                return text
    import vl_convert

    made: str = vl_convert.javascript_bundle()  # type: ignore[call-arg]  # as vl-convert documents it
    if cached is not None and os.access(cached.parent, os.W_OK):
        with suppress(OSError):
            replace_text(cached, made)
    return made


def _cached() -> Path | None:
    try:
        return cache_dir("charts") / f"vl-convert-{version('vl-convert-python')}.js"
    except LabError:
        return None
