"""The folder of a search: creates it with its space and store, and opens it again.

SEARCH_DIR/{space.yaml, search.db, runs/, finds/NAME/{scenario.yaml, report.html, bug-report.md}}
"""

from __future__ import annotations

import time
from pathlib import Path

from kaput.errors import UsageError
from kaput.evidence.folder import create_directory, replace_text
from kaput.scenario.source import read
from kaput.search.loading import from_text
from kaput.search.space import Space
from kaput.search.store import Settings, Store

SPACE = "space.yaml"


def create_search(searches: Path, space: Space, settings: Settings) -> Path:
    """Creates the folder of a new search. Raises UsageError if that fails."""
    folder = searches / f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime())}-{space.name}"
    create_directory(folder)
    replace_text(folder / SPACE, space.to_yaml())
    Store(folder, settings).close()
    return folder


def open_search(folder: Path) -> tuple[Space, Store]:
    """The space and the store of an existing search. Raises UsageError."""
    if not (folder / SPACE).is_file():
        raise UsageError(f"{folder}: not a search folder (it has no {SPACE})")
    store = Store(folder)
    space = from_text(store.settings.name, str(folder / SPACE), read(folder / SPACE))
    return space.with_control() if store.settings.control else space, store
