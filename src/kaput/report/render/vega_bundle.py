"""The script that draws charts in a page: Vega, Vega-Lite and what joins them, bundled by vl-convert.

Bundling takes seconds, so that the bundle of this version is kept in the user's cache; where that cannot be
written to it is made each time.
"""

from __future__ import annotations

import os
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from kaput.cache import cache_dir
from kaput.errors import LabError
from kaput.evidence.folder import replace_text

_LEAST = 100_000  # bytes: anything shorter is no bundle


def vega_bundle() -> str:
    """JavaScript that defines window.vegaEmbed. Asks nothing of the network."""
    kept = _kept()
    if kept is not None:
        with suppress(OSError, UnicodeDecodeError):
            text = kept.read_text(encoding="utf-8")
            if len(text) > _LEAST:
                return text
    import vl_convert

    made: str = vl_convert.javascript_bundle()  # type: ignore[call-arg]  # as vl-convert documents it
    if kept is not None and os.access(kept.parent, os.W_OK):
        with suppress(OSError):
            replace_text(kept, made)
    return made


def _kept() -> Path | None:
    try:
        return cache_dir("charts") / f"vl-convert-{version('vl-convert-python')}.js"
    except LabError:
        return None
