"""The example notebooks, run as IPython runs them: a kernel (nbclient, ipykernel and some 25 more packages to
lock) would add its sockets and start-up, and nothing to what is tested.
"""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

EXAMPLES = Path(__file__).parents[2] / "examples"


def executed(name: str) -> tuple[dict[str, Any], list[Any]]:
    """Of the cells of examples/NAME.ipynb: the names that they define, and the value that each code cell ends
    in (None: it has none).
    """
    names: dict[str, Any] = {}
    values = []
    for number, cell in enumerate(json.loads((EXAMPLES / f"{name}.ipynb").read_text())["cells"]):
        if cell["cell_type"] != "code":
            continue
        tree = ast.parse("".join(cell["source"]), f"cell {number}")
        last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, f"cell {number}", "exec"), names)
        shown = ast.Expression(last.value) if isinstance(last, ast.Expr) else None
        values.append(eval(compile(shown, f"cell {number}", "eval"), names) if shown else None)
    return names, values
