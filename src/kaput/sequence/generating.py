"""Numbered lines, made at a rate, or as fast as they are taken.

Lines that are written together carry the same time: that of the write.
"""

from __future__ import annotations

import binascii
import os
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Literal

from kaput.core import MS
from kaput.workload.payload.identity import Codec

_TOGETHER = 10_000  # lines of a write where there is no rate
_TICK_S = 0.001


@dataclass(frozen=True)
class GeneratorSpec:
    """What to generate. `count` None: until the reader ends; `rate` 0: as fast as it is read."""

    count: int | None
    start: int = 1
    rate: float = 0.0
    producer: int = 0
    unit: Literal["ms", "ns", "none"] = "ms"
    form: Literal["text", "payload"] = "text"
    run_id: uuid.UUID | None = None
    payload_bytes: int = 100


def chunks(
    order: GeneratorSpec,
    clock_ns: Callable[[], int] = time.time_ns,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[bytes]:
    """The lines, as many together as are due."""
    lines = _payloads(order) if order.form == "payload" else _texts(order)
    end = None if order.count is None else order.start + order.count
    began, at = monotonic(), order.start
    while end is None or at < end:
        due = at + _TOGETHER
        if order.rate:
            # The first is due at once.
            due = min(due, order.start + 1 + int((monotonic() - began) * order.rate))
            if due <= at:
                sleep(max(_TICK_S, (at - order.start) / order.rate - (monotonic() - began)))
                continue
        due = due if end is None else min(due, end)
        yield lines(at, due, clock_ns())
        at = due


def _texts(order: GeneratorSpec) -> Callable[[int, int, int], bytes]:
    """NUMBER TIME PRODUCER, or NUMBER alone."""

    def lines(first: int, end: int, now_ns: int) -> bytes:
        rest = "\n"
        if order.unit != "none":
            rest = f" {now_ns // MS if order.unit == 'ms' else now_ns} {order.producer}\n"
        return (rest.join(map(str, range(first, end))) + rest).encode()

    return lines


def _payloads(order: GeneratorSpec) -> Callable[[int, int, int], bytes]:
    """Each a payload of kaput's in base64."""
    encode = Codec(order.run_id or uuid.uuid4(), order.payload_bytes).encoder(order.producer)
    b64 = binascii.b2a_base64

    def lines(first: int, end: int, now_ns: int) -> bytes:
        return b"".join([b64(encode(number, now_ns)) for number in range(first, end)])

    return lines


def write(descriptor: int, order: GeneratorSpec) -> bool:
    """Writes all lines; False if the reader ended first. Raises OSError."""
    try:
        for chunk in chunks(order):
            left = memoryview(chunk)
            while left:
                left = left[os.write(descriptor, left) :]
    except BrokenPipeError:
        return False
    return True
