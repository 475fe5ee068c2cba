"""Templates, which escape all data, and the static files that pages load."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import quote

from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader

from kaput.report.render.html import environment, template_file, vega_bundle

_KINDS = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}


class Static(NamedTuple):
    """A static file and its media type."""

    content: bytes
    kind: str


def render(template: str, status: int = 200, **context: Any) -> HTMLResponse:
    """The page made from a template."""
    return HTMLResponse(
        _environment().get_template(f"{template}.html.j2").render(status=status, **context), status
    )


def address(name: str) -> str:
    """The URL path of a run's page."""
    return f"/runs/{quote(name, safe='')}"


@cache
def static_files() -> dict[str, Static]:
    """All static files, by name."""
    found = {file.name: file.read_bytes() for file in (files("kaput.dashboard") / "static").iterdir()}
    found |= {name: template_file(name).encode() for name in ("charts.css", "charts.js")}
    found["vega.js"] = vega_bundle().encode()
    kinds = {name: _KINDS.get(name.rpartition(".")[2]) for name in found}
    return {name: Static(found[name], kind) for name, kind in kinds.items() if kind}


@cache
def _environment() -> Environment:
    made = environment(PackageLoader("kaput.dashboard"))
    made.filters["address"] = address
    return made
