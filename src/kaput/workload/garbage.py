"""How often a client process looks for reference cycles: seldom, because its messages make none."""

from __future__ import annotations

import gc

_YOUNG = 100_000


def collect_seldom() -> None:
    """Leaves out what is loaded already, and waits for many new objects.

    Hundreds of messages are held at a time and let go of by counting; Python's default of 700 new objects
    would look through them again and again, for a tenth of the loop's time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(_YOUNG)
