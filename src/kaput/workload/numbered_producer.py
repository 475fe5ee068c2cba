"""What all of kaput's producer processes share, whichever client sends their numbered messages."""

from __future__ import annotations

import threading
import uuid
from pathlib import Path
from typing import Generic, TypeVar

from kaput.evidence.attempts import AttemptWriter
from kaput.evidence.recorder import Recorder
from kaput.workload.client_spec import ProducerSpec
from kaput.workload.counters import Counters, ThresholdWatch
from kaput.workload.payload.identity import Codec

S = TypeVar("S", bound=ProducerSpec)


class NumberedProducer(Generic[S]):
    """`attempts` and `recorder` write its evidence, `counts` is its row of live counters, `watch` notices
    thresholds that faults wait for; `encode` makes a message's payload; `stopping`: send no more.
    """

    def __init__(self, spec: S) -> None:
        self.spec = spec
        folder = Path(spec.folder)
        self.recorder = Recorder(folder, "sends", f"producer-{spec.producer}", spec.cluster)
        self.attempts = AttemptWriter(folder, spec.producer, spec.topic, spec.cluster)
        counters = Counters(Path(spec.counters), spec.producers)
        self.counts = counters.row(spec.producer)
        self.watch = ThresholdWatch(counters, spec.thresholds)
        fill = uuid.UUID(spec.run_id).bytes + bytes(range(64))
        codec = Codec(uuid.UUID(spec.run_id), spec.payload_bytes, fill, spec.text)
        self.encode = codec.encoder(spec.producer)
        self.stopping = threading.Event()
