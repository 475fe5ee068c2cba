"""Histories of anything that can go wrong, drawn by Hypothesis.

One history holds several small worlds beside each other, with topics, producers and members of their own:
judging a history takes seconds whatever its size, so that a world costs little.
"""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from fakes.histories import History

GROUPS = {"audit": False, "billing": True, "ledger": True}  # and whether their drains finished
_OUTCOMES = st.sampled_from(["acked", "acked", "acked", "failed", "unknown"])
_ACKS = st.sampled_from(["all", 1, 0])
_BROKER = st.sampled_from([1, 1, 2])
_KINDS = st.sampled_from(
    ["assigned", "assigned", "revoked", "lost", "left", "killed", "committed", "committed"]
)


@st.composite
def histories(draw: st.DrawFn) -> History:
    """Up to fourteen worlds: messages, their copies, what groups were handed, and what went wrong."""
    worlds = [World(draw, number) for number in range(draw(st.integers(2, 14)))]
    history = History(
        producers=[{"topic": w.topics[0], "acks": draw(_ACKS), "count": 2} for w in worlds],
        topics=[{"name": name, "partitions": 2} for world in worlds for name in world.topics],
        groups=dict(GROUPS),
        subscriptions={"ledger": [world.topics[1] for world in worlds]},
    )
    for world in worlds:
        world.play(history)
    for fault in draw(st.lists(st.sampled_from(["kill", "power-loss"]), max_size=3)):
        healed = draw(st.none() | st.integers(3, 9))
        history.fault(draw(_BROKER), draw(st.integers(0, 3)), healed, fault=fault, bit=draw(st.booleans()))
    return history


class World:
    """Two producers, two topics, two members in each group."""

    def __init__(self, draw: st.DrawFn, number: int) -> None:
        self.draw = draw
        self.topics = (f"orders{number}", f"bills{number}")
        self.producers = (2 * number, 2 * number + 1)
        self.members = (f"{number}-one", f"{number}-two")
        self.taken: set[tuple[Any, ...]] = set()

    def play(self, history: History) -> None:
        """Adds this world's rows."""
        for producer in self.producers:
            for seq in range(self.draw(st.integers(0, 4))):
                self._send(history, producer, seq)
        for _ in range(self.draw(st.integers(0, 2))):
            strange = [(None, None, False), (None, None, True), (self.producers[0], 90, True)]
            self._store(history, *self.draw(st.sampled_from(strange)), self._place(), None)
        for _ in range(self.draw(st.integers(0, 8))):
            self._hand(history)
        for _ in range(self.draw(st.integers(0, 5))):
            self._event(history)
        for topic in self.topics:
            for partition in (0, 1):
                self._lead(history, topic, partition)
                self._end(history, topic, partition)

    def _place(self) -> dict[str, Any]:
        return {"topic": self.draw(st.sampled_from(self.topics)), "partition": self.draw(st.integers(0, 1))}

    def _reader(self) -> dict[str, Any]:
        group = self.draw(st.sampled_from(sorted(GROUPS)))
        return {"group": group, "member": self.draw(st.sampled_from(self.members))}

    def _send(self, history: History, producer: int, seq: int) -> None:
        draw, where, outcome = self.draw, self._place(), self.draw(_OUTCOMES)
        offset = draw(st.none() | st.integers(0, 5)) if outcome == "acked" else None
        known = where if draw(st.integers(0, 4)) else where | {"partition": None}
        history.sent(producer, seq, offset, outcome, **known)
        for _ in range(draw(st.sampled_from([1, 1, 1, 0, 2]))):
            stored_in = where if draw(st.integers(0, 5)) else self._place()
            self._store(history, producer, seq, True, stored_in, offset)

    def _store(
        self,
        history: History,
        producer: int | None,
        seq: int | None,
        intact: bool,
        where: dict[str, Any],
        offset: int | None,
    ) -> None:
        if offset is None or self.draw(st.integers(0, 4)) == 0:
            offset = self.draw(st.integers(0, 6))
        mark = (*where.values(), offset, producer, seq)
        if mark not in self.taken:
            self.taken.add(mark)
            epoch = self.draw(st.none() | st.integers(0, 2))
            history.stored(offset, producer, seq, intact=intact, leader_epoch=epoch, **where)

    def _hand(self, history: History) -> None:
        draw, reader, ms = self.draw, self._reader(), self.draw(st.integers(0, 8))
        mine = [r for r in history.rows["log"] if r["topic"] in self.topics]
        if mine and draw(st.integers(0, 4)):
            record = draw(st.sampled_from(mine))
            row = {key: record[key] for key in ("topic", "partition", "intact")}
            history.handed(record["offset"], record["producer"], record["seq"], ms, **reader, **row)
            return
        some = [(None, None), *((producer, seq) for producer in self.producers for seq in (0, 1))]
        producer, seq = draw(st.sampled_from(some))
        intact = producer is not None or draw(st.booleans())
        history.handed(draw(st.integers(0, 6)), producer, seq, ms, intact=intact, **reader, **self._place())

    def _event(self, history: History) -> None:
        draw, reader, kind, ms = self.draw, self._reader(), self.draw(_KINDS), self.draw(st.integers(0, 8))
        if kind in ("left", "killed"):
            history.event(kind, ms, **reader, topic=None, partition=None)
        elif kind == "committed":
            history.event(kind, ms, draw(st.integers(0, 7)), **reader, **self._place())
        elif draw(st.integers(0, 5)) == 0:
            topic = draw(st.none() | st.sampled_from(self.topics))
            history.event(kind, ms, **reader, topic=topic, partition=None)
        else:
            offset = draw(st.none() | st.integers(0, 3)) if kind == "assigned" else None
            history.event(kind, ms, offset, **reader, **self._place())

    def _lead(self, history: History, topic: str, partition: int) -> None:
        """Who led a partition, mostly as a cluster would tell it; nothing of some partitions."""
        draw, ms, where = self.draw, 0, {"topic": topic, "partition": partition}
        for epoch in range(draw(st.sampled_from([0, 1, 2, 3, 3]))):
            leader = draw(st.sampled_from([1, 1, 2, -1, None] if epoch else [1, 1, 2]))
            told = epoch if draw(st.integers(0, 9)) else None
            isr = draw(st.none() | st.sampled_from([[1], [1, 2], [1, 2, 3]]))
            history.led(leader, told, ms, isr, **where)
            if draw(st.integers(0, 3)) == 0:
                history.led(leader, told, ms, [1, 2], kind="isr", **where)
            ms += draw(st.integers(0, 3))

    def _end(self, history: History, topic: str, partition: int) -> None:
        how = self.draw(st.sampled_from(["read", "read", "read", "read", "short", "unknown"]))
        if how == "unknown":
            return
        place = (topic, partition)
        end = max(
            (r["offset"] for r in history.rows["log"] if (r["topic"], r["partition"]) == place), default=-1
        )
        drained = end if how == "short" else end + 1
        history.add("end_offsets", topic=topic, partition=partition, end_offset=end + 1, drained_to=drained)
