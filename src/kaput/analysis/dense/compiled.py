"""Loops over rows, compiled: one pass does several steps, where numpy would take a pass for each.

A compiled function is made once, at the installation, and kept beside its source or, where that may not be
written, in the user's cache (numba's rule). Where neither can be, each process makes its own. Types are told
beforehand, so that nothing is ever compiled in the midst of a count.
Only tasks import modules with such functions: the driver, which wants to be quick, never needs them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba
from numba import types

F = TypeVar("F", bound=Callable[..., Any])

INTS = types.Array(types.int64, 1, "C", readonly=True)
BYTES = types.Array(types.uint8, 1, "C", readonly=True)
FLAGS = types.Array(types.boolean, 1, "C", readonly=True)
OUT_INTS = types.Array(types.int64, 1, "C")
OUT_BYTES = types.Array(types.uint8, 1, "C")
OUT_FLAGS = types.Array(types.boolean, 1, "C")
TABLE = types.Array(types.int64, 2, "C", readonly=True)
OUT_TABLE = types.Array(types.int64, 2, "C")
INT = types.int64
SIZES = types.UniTuple(INT, 5)  # type: ignore[no-untyped-call]


def compiled(*arguments: types.Type) -> Callable[[F], F]:
    """A function of those types, compiled. Whole numbers wrap around, as numpy's do."""

    def of(function: F) -> F:
        # A signature without what it returns is given as the tuple of its arguments.
        try:
            made = numba.njit([tuple(arguments)], cache=True, nogil=True)(function)
        except RuntimeError:  # there is nowhere to keep it
            made = numba.njit([tuple(arguments)], nogil=True)(function)
        return cast(F, made)

    return of
