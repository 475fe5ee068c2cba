"""Documents as HTML: one file with its own style, scripts and data, which loads nothing.

The template escapes all text of data; what this module marks as safe is the project's own script and style,
the charts' bundle, and JSON in which no tag can end.
"""

from __future__ import annotations

import json
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import DictLoader, Environment, StrictUndefined
from markupsafe import Markup

from kaput.report.document import Chart, Document, Term, Timelines, every_block, parts, plain
from kaput.report.render.vega_bundle import vega_bundle

_SIGNS = {"held": "✓", "loss": "✓", "violated": "✗", "inconclusive": "?"}
_TEMPLATE = "document.html.j2"


def render(document: Document) -> str:
    """The whole page."""
    environment = Environment(
        loader=DictLoader({_TEMPLATE: _text(_TEMPLATE)}),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.tests["explained"] = lambda part: isinstance(part, Term) and part.word in glossary()
    environment.filters |= {"parts": parts, "plain": plain, "kind": lambda block: type(block).__name__}
    charts = _charts(document)
    return environment.get_template(_TEMPLATE).render(
        document=document,
        sign=_SIGNS.get(document.head.tone, "?"),
        glossary=glossary(),
        charts=_as_script(charts) if charts else None,
        bundle=Markup(vega_bundle()) if charts else "",
        style=Markup(_text("report.css")),
        charts_script=Markup(_text("charts.js")),
        glossary_script=Markup(_text("glossary.js")),
    )


def _charts(document: Document) -> dict[str, Any] | None:
    """What charts.js draws; None where there is nothing."""
    blocks = list(every_block(block for section in document.sections for block in section.blocks))
    others = {block.name: block.spec() for block in blocks if isinstance(block, Chart)}
    found = [block for block in blocks if isinstance(block, Timelines)]
    if not found:
        return {"begin": 0, "end": 1, "runs": [], "others": others} if others else None
    timelines = found[0]  # a page has one clock
    runs = [run.drawn for run in timelines.runs]
    return {"begin": timelines.begin, "end": timelines.end, "runs": runs, "others": others}


@cache
def glossary() -> dict[str, str]:
    """What words mean, by word, as in docs/GLOSSARY.md (GLOSSARY.md here is a link to it)."""
    meanings: dict[str, str] = {}
    for line in _text("../GLOSSARY.md").splitlines():
        words, _, meaning = line.strip("| ").partition(" | ")
        for word in words.split(", ") if line.startswith("| ") else ():
            meanings.setdefault(word.partition(" [")[0], meaning)
    return meanings


@cache
def _text(name: str) -> str:
    return (files("kaput.report.render") / "templates" / name).read_text(encoding="utf-8")


def _as_script(document: Any) -> Markup:
    """JSON that is safe between script tags: no `<` of its text can begin or end one."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))
