"""Generates numbered lines at a rate, or as fast as they are read.

Lines that are written together have the same time: that of the write. Not here: their formats (parsing.py).
"""

from __future__ import annotations

import binascii
import os
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from kaput.core import MS
from kaput.workload.payload import Codec

_WRITE_LINES = 10_000  # maximum lines per write
_TICK_S = 0.001


@dataclass(frozen=True)
class GeneratorSpec:
    """What to generate. `count` None: until the reader exits; `rate` 0: as fast as it is read."""

    count: int | None
    start: int = 1
    rate: float = 0.0
    producer: int = 0
    unit: Literal["ms", "ns", "none"] = "ms"
    form: Literal["text", "payload"] = "text"
    run_id: uuid.UUID | None = None
    payload_bytes: int = 100


def chunks(
    spec: GeneratorSpec,
    clock_ns: Callable[[], int] = time.time_ns,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> Iterator[bytes]:
    """Yields chunks of lines that are due."""
    lines = _payloads(spec) if spec.form == "payload" else _texts(spec)
    end = None if spec.count is None else spec.start + spec.count
    began, at = monotonic(), spec.start
    while end is None or at < end:
        due = at + _WRITE_LINES
        if spec.rate:
            # The first line is due at once.
            due = min(due, spec.start + 1 + int((monotonic() - began) * spec.rate))
            if due <= at:
                sleep(max(_TICK_S, (at - spec.start) / spec.rate - (monotonic() - began)))
                continue
        due = due if end is None else min(due, end)
        yield lines(at, due, clock_ns())
        at = due


def _texts(spec: GeneratorSpec) -> Callable[[int, int, int], bytes]:
    """Lines `NUMBER TIME PRODUCER`, or only NUMBER."""

    def lines(first: int, end: int, now_ns: int) -> bytes:
        rest = "\n"
        if spec.unit != "none":
            rest = f" {now_ns // MS if spec.unit == 'ms' else now_ns} {spec.producer}\n"
        return (rest.join(map(str, range(first, end))) + rest).encode()

    return lines


def _payloads(spec: GeneratorSpec) -> Callable[[int, int, int], bytes]:
    """Lines with kaput's payloads in base64."""
    encode = Codec(spec.run_id or uuid.uuid4(), spec.payload_bytes).encoder(spec.producer)
    b64 = binascii.b2a_base64

    def lines(first: int, end: int, now_ns: int) -> bytes:
        return b"".join([b64(encode(number, now_ns)) for number in range(first, end)])

    return lines


def write(descriptor: int, spec: GeneratorSpec) -> None:
    """Writes all lines, or until the reader exits. Raises OSError."""
    with suppress(BrokenPipeError):
        for chunk in chunks(spec):
            left = memoryview(chunk)
            while left:
                left = left[os.write(descriptor, left) :]
