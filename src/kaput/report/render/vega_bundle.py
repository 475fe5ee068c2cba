"""The script that draws charts on a page: Vega, Vega-Lite and vega-embed, bundled by vl-convert.

Bundling takes seconds, so the bundle of each version is kept in the user's cache; if the cache is not
writable, the bundle is made each time.
"""

from __future__ import annotations

import os
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path

from kaput.cache import cache_dir
from kaput.errors import LabError
from kaput.evidence.folder import replace_text

_LEAST_CHARS = 100_000  # anything shorter is not a complete bundle


def vega_bundle() -> str:
    """JavaScript that defines window.vegaEmbed. Needs no network."""
    cached = _cached()
    if cached is not None:
        with suppress(OSError, UnicodeDecodeError):
            text = cached.read_text(encoding="utf-8")
            if len(text) > _LEAST_CHARS:
                return text
    import vl_convert

    made: str = vl_convert.javascript_bundle()  # type: ignore[call-arg]  # as vl-convert documents it
    if cached is not None and os.access(cached.parent, os.W_OK):
        with suppress(OSError):
            replace_text(cached, made)
    return made


def _cached() -> Path | None:
    try:
        return cache_dir("charts") / f"vl-convert-{version('vl-convert-python')}.js"
    except LabError:
        return None
