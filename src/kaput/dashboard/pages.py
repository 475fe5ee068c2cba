"""Templates, which escape all that comes from data, and the files that pages load."""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import quote

from fastapi.responses import HTMLResponse
from jinja2 import Environment, PackageLoader, StrictUndefined

_KINDS = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}


class Static(NamedTuple):
    """A file as it is sent."""

    content: bytes
    kind: str


def render(template: str, status: int = 200, **context: Any) -> HTMLResponse:
    """A page."""
    return HTMLResponse(
        _environment().get_template(f"{template}.html.j2").render(status=status, **context), status
    )


def address(name: str) -> str:
    """Where the page of a run is."""
    return f"/runs/{quote(name, safe='')}"


@cache
def static_files() -> dict[str, Static]:
    """All that may be asked for, by name."""
    there = files("kaput.dashboard") / "static"
    found = [file for file in there.iterdir() if file.name.rpartition(".")[2] in _KINDS]
    return {file.name: Static(file.read_bytes(), _KINDS[file.name.rpartition(".")[2]]) for file in found}


@cache
def _environment() -> Environment:
    loader = PackageLoader("kaput.dashboard", "templates")
    made = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    made.filters["address"] = address
    return made
