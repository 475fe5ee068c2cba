"""The samples that a monitor would have taken during a recorded run: from its evidence, second by second.

A run folder lacks some of what a live cluster shows: disks, certificates, and the lag of quorum voters.
Signals without samples are not played, nor are rules on them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kaput.core import SECOND
from kaput.errors import EvidenceError
from kaput.evidence.reading import Evidence
from kaput.monitor.alerts.scoring.from_cluster import cluster_samples
from kaput.monitor.alerts.scoring.from_groups import group_samples
from kaput.monitor.alerts.scoring.from_messages import Sends, message_samples
from kaput.monitor.signals import Sample

Moments = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Recording:
    """`steps`: by time (ns), in order, the samples taken then."""

    steps: Mapping[int, list[Sample]]

    @property
    def signals(self) -> set[str]:
        """The signals that have samples."""
        return {sample.name for samples in self.steps.values() for sample in samples}

    @property
    def length_ns(self) -> int:
        """The time from the first step to the last."""
        return max(self.steps) - min(self.steps)

    def only(self, signal: str) -> Recording:
        """The recording with only that signal."""
        kept = {at: [each for each in samples if each.name == signal] for at, samples in self.steps.items()}
        return Recording(kept)


def recording_of(evidence: Evidence, every_ns: int = SECOND) -> Recording:
    """Samples from the first attempt to the last one: afterwards nothing is sent, and nothing can be missed.
    Raises EvidenceError.
    """
    sends = Sends.of(evidence)
    if len(sends) == 0:
        raise EvidenceError(
            f"{evidence.folder.title}: nothing was sent; there is nothing to evaluate rules on"
        )
    moments = np.arange(sends.first_ns, sends.last_ns + 1, every_ns, dtype=np.int64)
    samples: Iterable[Sample] = (
        *message_samples(sends, moments),
        *cluster_samples(evidence, moments),
        *group_samples(evidence, sends, moments),
    )
    steps: dict[int, list[Sample]] = defaultdict(list)
    for sample in samples:
        steps[sample.at_ns].append(sample)
    return Recording({int(at): steps[int(at)] for at in moments})
