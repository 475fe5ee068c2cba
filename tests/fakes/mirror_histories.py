"""Each anomaly of mirrors in a history of at most ten events, with its exact count and the sentence that
tells it. dc1 is where messages are sent; dc1->dc2 copies orders.
"""

from __future__ import annotations

from typing import Any

from fakes.histories import History

HERE, THERE = {"cluster": "dc1"}, {"cluster": "dc2"}


def two_clusters(**mirror: Any) -> History:
    """dc1, dc2 and a mirror between them, and nothing that happened. `mirror`: what else it is."""
    way = {"from": "dc1", "to": "dc2", "topics": ["orders"]}
    return History(clusters={"dc1": {}, "dc2": {}}, mirrors=[way | mirror])


def sent_and_mirrored(history: History, *copies: int, sent: int = 3) -> History:
    """So many messages stored in dc1, and copies of these in dc2, in this order."""
    for seq in range(sent):
        history.sent(0, seq, seq, **HERE).stored(seq, 0, seq, **HERE)
    for offset, seq in enumerate(copies):
        history.stored(offset, 0, seq, **THERE)
    return history


def unmirrored() -> History:
    """The mirror had everything up to offset 3, but for message 1."""
    return sent_and_mirrored(two_clusters(), 0, 2).mirrored("drained", 20, source_offset=3)


def mirrored_twice() -> History:
    """Message 1 was copied once more when the mirror started again."""
    history = sent_and_mirrored(two_clusters(), 0, 1, 1, 2)
    return history.mirrored("started", 0).mirrored("killed", 5).mirrored("started", 6)


def mirror_reordered() -> History:
    """Message 1 is copied behind message 2."""
    return sent_and_mirrored(two_clusters(), 0, 2, 1)


def looped() -> History:
    """Message 0 was copied to dc2 and back, by mirrors with the identity policy."""
    history = sent_and_mirrored(two_clusters(), 0, 1, sent=2)
    history.mirrors.append({"from": "dc2", "to": "dc1", "topics": ["orders"]})
    return history.stored(2, 0, 0, **HERE)


def _moved(read: int, begin: int, until: int = 3) -> History:
    """A group that read so many messages in dc1, and went on in dc2 at `begin`."""
    history = sent_and_mirrored(two_clusters(groups=["billing"]), 0, 1, 2)
    history.groups = {"billing": True}
    for seq in range(read):
        history.handed(seq, 0, seq, 10 + seq, **HERE)
    history.mirrored("translated", 20, group="billing", target_offset=begin)
    for seq in range(begin, until):
        history.handed(seq, 0, seq, 30 + seq, **THERE)
    return history


def translated_ahead() -> History:
    """The group had read message 0, and began behind message 1."""
    return _moved(read=1, begin=2)


def translated_behind() -> History:
    """The group had read messages 0 and 1, and began at message 1."""
    return _moved(read=2, begin=1)


MIRROR_CASES = {
    "unmirrored": (
        unmirrored,
        {"unmirrored": 1},
        "producer 0's message 1 was acknowledged, and dc2 has no copy of it (dc1->dc2: unexplained)",
    ),
    "mirrored-twice": (
        mirrored_twice,
        {"mirrored-twice": 1},
        "producer 0's message 1 is in dc2:orders 2 times, and in its own cluster 1",
    ),
    "mirror-reordered": (
        mirror_reordered,
        {"mirror-reordered": 1},
        "producer 0's message 1 is at dc2:orders/0 offset 2, copied from offset 1 of the source, "
        "after the copy of offset 2",
    ),
    "looped": (
        looped,
        {"looped": 1},
        "producer 0's message 0 came back to its own cluster, as dc1:orders/0 offset 2",
    ),
    "translated-ahead": (
        translated_ahead,
        {"translated-ahead": 1, "unseen": 1},
        "producer 0's message 1 is at dc2:orders/0 offset 1, below 2, where the group began at "
        "22:13:20.020, and was never delivered to it",
    ),
    "translated-behind": (
        translated_behind,
        {"translated-behind": 1},
        "producer 0's message 1 is at dc2:orders/0 offset 1, not below 1, where the group began at "
        "22:13:20.020, and had been delivered to it before",
    ),
}
