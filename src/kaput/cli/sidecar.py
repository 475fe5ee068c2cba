"""`python -m kaput.cli.sidecar`: the main module of the process in dashboard/sidecar.py; adds searches."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kaput.dashboard.sidecar import serve

if TYPE_CHECKING:
    from kaput.search.summary import Searches


def _searches_of(runs: Path) -> Searches:
    from kaput.search.summary import Searches

    return Searches.of_runs(runs)


if __name__ == "__main__":
    serve(_searches_of)
