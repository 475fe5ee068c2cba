"""Results for empty frames, computed once.

Most tables of most runs are empty: no mirror, no store, no loss. A Polars call takes some 0.1 ms on an empty
frame too, and such calls were half of a small judgement.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def once_if_empty(*names: str) -> Callable[[Callable[P, T]], Callable[P, T]]:
    """Decorates a pure function of frames. If the frames `names` are all empty, its result may depend only on
    their columns, and on arguments that are strings or tuples; it is then computed once and kept.
    """

    def decorate(function: Callable[P, T]) -> Callable[P, T]:
        every = list(inspect.signature(function).parameters)
        positions = [(name, every.index(name)) for name in names]
        kept: dict[object, T] = {}

        @wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            frames: list[Any] = [args[at] if at < len(args) else kwargs[name] for name, at in positions]
            if any(frame.height for frame in frames):
                return function(*args, **kwargs)
            columns = tuple(tuple(frame.schema.items()) for frame in frames)
            others = tuple(arg for arg in (*args, *kwargs.values()) if isinstance(arg, (str, tuple)))
            if (key := (columns, others)) not in kept:
                kept[key] = function(*args, **kwargs)
            return kept[key]

        return call

    return decorate
