"""Programs that no test runs (scripts, benchmarks, docs) import from kaput what is there."""

from __future__ import annotations

import ast
import importlib
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PROGRAMS = sorted(path for name in ("scripts", "benchmarks", "docs") for path in (ROOT / name).rglob("*.py"))


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_of_kaput_exist(program: Path) -> None:
    """Modules, and the names in them."""
    for node in ast.walk(ast.parse(program.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "kaput":
            module = importlib.import_module(node.module)
            gone = [alias.name for alias in node.names if not hasattr(module, alias.name)]
            if hasattr(module, "__path__"):
                gone = [name for name in gone if find_spec(f"{node.module}.{name}") is None]
            assert gone == []
