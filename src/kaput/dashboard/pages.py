"""Templates, which escape all data; the static files that pages load; the bodies of requests for a change,
and the response to a refused one. Authorization: guard.py.
"""

from __future__ import annotations

from functools import cache
from importlib.resources import files
from typing import Any, NamedTuple, Self
from urllib.parse import quote

from fastapi.responses import HTMLResponse, JSONResponse
from jinja2 import Environment, PackageLoader
from pydantic import BaseModel, ConfigDict, ValidationError

from kaput.errors import LabError, UsageError
from kaput.report.render.html import environment, template_file, vega_bundle

_KINDS = {"css": "text/css; charset=utf-8", "js": "text/javascript; charset=utf-8"}


class Static(NamedTuple):
    content: bytes
    kind: str


def render(template: str, status: int = 200, **context: Any) -> HTMLResponse:
    return HTMLResponse(
        _environment().get_template(f"{template}.html.j2").render(status=status, **context), status
    )


def address(name: str) -> str:
    """The URL path of a run's page."""
    return f"/runs/{quote(name, safe='')}"


@cache
def static_files() -> dict[str, Static]:
    static = {file.name: file.read_bytes() for file in (files("kaput.dashboard") / "static").iterdir()}
    static |= {name: template_file(name).encode() for name in ("charts.css", "charts.js")}
    static["vega.js"] = vega_bundle().encode()
    kinds = {name: _KINDS.get(name.rpartition(".")[2]) for name in static}
    return {name: Static(static[name], kind) for name, kind in kinds.items() if kind}


@cache
def _environment() -> Environment:
    made = environment(PackageLoader("kaput.dashboard"))
    made.filters["address"] = address
    return made


class ChangeRequest(BaseModel):
    """The body of a request: exactly its fields, with strict types."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    @classmethod
    def read(cls, body: bytes) -> Self:
        """Parses the JSON of a body. Raises UsageError."""
        try:
            return cls.model_validate_json(body)
        except ValidationError as error:
            raise UsageError(f"invalid request: {error.errors()[0]['msg']}") from None


def refusal_response(error: UsageError | LabError) -> JSONResponse:
    """The error message, with status 400 for a mistake in the request, 409 if it cannot be done now."""
    return JSONResponse({"error": str(error)}, 400 if isinstance(error, UsageError) else 409)
