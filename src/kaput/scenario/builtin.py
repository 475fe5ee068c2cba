"""The built-in scenarios: the YAML files in library/, packaged with the program."""

from __future__ import annotations

from importlib.resources import files
from importlib.resources.abc import Traversable

_SUFFIX = ".yaml"


def builtin_names() -> list[str]:
    """The names of all built-in scenarios, in alphabetical order."""
    return sorted(
        entry.name.removesuffix(_SUFFIX) for entry in _library().iterdir() if entry.name.endswith(_SUFFIX)
    )


def builtin_text(name: str) -> str:
    """The file of a built-in scenario, verbatim. `name` must be one of `builtin_names()`."""
    return (_library() / f"{name}{_SUFFIX}").read_text(encoding="utf-8")


def _library() -> Traversable:
    return files("kaput.scenario") / "library"
