"""What every page is made of: the template, the project's own style and scripts, the charts and their data.

The templates escape all that comes from data; what this module marks as safe is the project's own script and
style, the charts' bundle, and JSON in which no tag can end.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from typing import Any

from jinja2 import BaseLoader, Environment, StrictUndefined, TemplateNotFound
from markupsafe import Markup

from kaput.report import charts, curves
from kaput.report.course import Course, Steps
from kaput.report.drawing import MOST_BARS
from kaput.report.script import chart_script
from kaput.report.words import WORDS

SIGNS = {"held": "✓", "violated": "✗", "inconclusive": "?"}
Spec = dict[str, Any]


def rendered(template: str, drawn: Mapping[str, Any] | None, context: Mapping[str, Any]) -> str:
    """The whole document. `drawn`: what charts.js draws, None where there is nothing."""
    environment = Environment(
        loader=_Own(), autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    own = {
        "words": WORDS,
        "drawn": _as_script(drawn) if drawn else None,
        "bundle": Markup(chart_script()) if drawn else "",
        "style": Markup(_text("report.css")),
        "charts_script": Markup(_text("charts.js")),
        "words_script": Markup(_text("words.js")),
    }
    return environment.get_template(template).render({**own, **context})


class _Own(BaseLoader):
    """The templates beside this module."""

    def get_source(self, environment: Environment, template: str) -> tuple[str, str | None, Any]:
        try:
            return _text(template), None, lambda: True
        except OSError as error:
            raise TemplateNotFound(template) from error


@cache
def _text(name: str) -> str:
    return (files("kaput.report") / "templates" / name).read_text(encoding="utf-8")


def _as_script(document: Any) -> Markup:
    """JSON that may stand between script tags: no `<` of its text can begin or end one."""
    text = json.dumps(document, separators=(",", ":"), allow_nan=False)
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def without_legends(spec: Spec) -> Spec:
    """Pages have legends of their own, which wrap and can be read aloud."""
    for layer in spec["layer"]:
        layer["encoding"].get("color", {})["legend"] = None
    return spec


def run_drawn(course: Course, rows: Sequence[curves.Row], label: str = "") -> dict[str, Any]:
    """One run as charts.js reads it. `label`: what it is called where several are shown."""
    return {
        "label": label,
        "key": course.key,
        "charts": {row.name: without_legends(row.chart.to_dict(validate=False)) for row in rows},
        "data": charts.data_of(course, rows),
        "overview": _columns(course.overview, curves.steps(course)),
        "fine": _columns(course.fine, curves.fine_steps(course)),
        "faults": [bar._asdict() for bar in course.faults],
        "leaders": [bar._asdict() for bar in course.leaders[:MOST_BARS]],
    }


def _columns(steps: Steps, rows: Sequence[dict[str, float | None]]) -> dict[str, Any]:
    """The rows by column, which takes a third of the room."""
    names = list(rows[0])
    return {"width": steps.width_s, "names": names, "columns": [[row[n] for row in rows] for n in names]}
