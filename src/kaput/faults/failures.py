"""Turns failed injections and heals into unconfirmed effects instead of exceptions.

nemesis.py (in runs) and operate/fault_injection.py (on demand) inject and heal through these.
"""

from __future__ import annotations

from collections.abc import Callable

from kaput.errors import LabError
from kaput.faults.fault import Effect

Heal = Callable[[Effect], tuple[int | None, Effect]]


def injected_or_failed(inject: Callable[[], Effect]) -> tuple[Effect, bool]:
    """The effect, and whether the injection failed halfway: then heal it at once."""
    try:
        return inject(), False
    except LabError as error:
        return Effect(None, False, f"the injection failed: {error}"), True


def healed_or_failed(heal: Heal, effect: Effect) -> tuple[int | None, Effect]:
    """The heal's result; a heal that fails leaves the effect unconfirmed, and does not end the run."""
    try:
        return heal(effect)
    except LabError as error:
        return None, effect.with_proof(f"the heal failed: {error}", still_confirmed=False)
