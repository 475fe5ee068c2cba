"""Injections and heals that may fail half-way, as effects: what fails is no bite, and nothing is raised.

Its place: whoever plays faults (nemesis.py in runs, operate/fault_injection.py on demand) goes through these.
"""

from __future__ import annotations

from collections.abc import Callable

from kaput.errors import LabError
from kaput.faults.fault import Effect

Heal = Callable[[Effect], tuple[int | None, Effect]]


def injected_or_failed(inject: Callable[[], Effect]) -> tuple[Effect, bool]:
    """The effect, and whether the injection failed half-way: then it is to be healed at once."""
    try:
        return inject(), False
    except LabError as error:
        return Effect(None, False, f"the injection failed: {error}"), True


def healed_or_failed(heal: Heal, effect: Effect) -> tuple[int | None, Effect]:
    """A heal that fails leaves a run that can be judged, though not be trusted: it ends nothing else."""
    try:
        return heal(effect)
    except LabError as error:
        return None, effect.further(f"the heal failed: {error}", holds=False)
