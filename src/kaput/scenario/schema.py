"""The JSON Schema of scenario files, for editors that complete and check YAML. Made from the model."""

from __future__ import annotations

from functools import cache
from typing import Any

from pydantic import BaseModel

from kaput.scenario.model import Scenario

DIALECT = "https://json-schema.org/draft/2020-12/schema"


@cache
def json_schema() -> dict[str, Any]:
    """The schema (draft 2020-12), made once; descriptions come from the model. Do not change it."""
    return schema_of(Scenario, "kaput scenario")


def schema_of(model: type[BaseModel], title: str) -> dict[str, Any]:
    """The JSON Schema of any model."""
    schema = model.model_json_schema(by_alias=True, mode="validation")
    return {"$schema": DIALECT, **_without_titles(schema), "title": title}


def _without_titles(node: Any) -> Any:
    """Removes pydantic's titles, which repeat the field names and which editors would show."""
    if isinstance(node, list):
        return [_without_titles(entry) for entry in node]
    if not isinstance(node, dict):
        return node
    # A property may itself be named title: then its value is a schema, not text.
    return {k: _without_titles(v) for k, v in node.items() if not (k == "title" and isinstance(v, str))}
