"""The partitions of a run: which there are, which were read to their end, what the log holds of each epoch.

Dictionaries on the driver.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kaput.analysis.names import Place


@dataclass(frozen=True)
class Partitions:
    """`complete`: whether a known partition was read to its end. `logged`: by epoch, the least and the
    greatest offset in the log. `unread`: the partitions of the run that were not read to their end, without
    those that only deliveries name.

    `ends`: the offset after the last, from end_offsets, else from the log.
    """

    complete: Mapping[Place, bool]
    unread: Sequence[Place]
    logged: Mapping[Place, Mapping[int, tuple[int, int]]]
    ends: Mapping[Place, int]
    log_records: int
    foreign_records: int
    end_offsets_sum: int

    def topics(self) -> Mapping[str, bool]:
        """The known topics, and whether every partition of theirs was read to its end."""
        topics: dict[str, bool] = {}
        for (topic, _), complete in self.complete.items():
            topics[topic] = topics.get(topic, True) and complete
        return topics
