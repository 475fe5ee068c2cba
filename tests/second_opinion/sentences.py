"""Numbers in the sentences of a report, held against the raw tables and the claims behind them.

`text`: the report as a terminal shows it, or the words of the page.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from second_opinion.answers import FALSE, TRUE, Opinion, one_of
from second_opinion.raw import SECOND
from second_opinion.silences import Scope, Silence

if TYPE_CHECKING:
    from second_opinion.opinion import Examiner

_N, _S = r"(\d[\d,]*)", r"(\d[\d,]*(?:\.\d+)?)"
# Of which anomaly each sentence is, after its number.
_REASONS = {
    r"acknowledged messages? (?:is|are) lost": "lost",
    r"messages? (?:is|are) stored more than once": "duplicate",
    r"messages? (?:is|are) stored after later ones": "reordered",
    r"offsets? (?:was|were) assigned to more than one message": "inconsistent-offset",
    r"acknowledged messages? (?:is|are) not in a mirror's target": "unmirrored",
    r"messages? (?:was|were) skipped in another cluster": "translated-ahead",
    r"messages? (?:is|are) read again in another cluster": "translated-behind",
    r"stored messages? (?:was|were) never delivered": "unseen",
    r"messages? (?:is|are) stored more often in a mirror's target": "mirrored-twice",
    r"transactions? (?:is|are) stored in part": "torn-transaction",
    r"times? a last stable offset stalled": "hanging-transaction",
}
_CONDITIONS = {
    "until the heal": "heal",
    "until a leader was elected": "election",
    "until the in-sync replicas changed": "isr",
    "until the group had an owner": "rebalance",
    "for client and brokers": "client",
}
# What the line of a fault says after its numbers, and the fields that these are.
_OF_FAULTS = {
    rf"leader elected after {_S} ms": ("election_ms",),
    rf"first acknowledgement by a new leader after {_S} ms": ("first_ack_after_ms",),
    rf"first delivery of a new leader's record after {_S} ms": ("first_delivery_after_ms",),
    rf"longest silence after it {_S} ms": ("unavailable_ms",),
    rf"full again, after the heal {_S} ms": ("isr_restored_ms",),
    rf"backlog of \S+ drained after {_S} ms": ("backlog_drained_ms",),
    rf"affected {_N} of {_N} messages attempted": ("affected", "sent_in_window"),
    rf"loss window {_S} ms, {_N} attempts in it": ("loss_window_ms", "sent_in_loss_window"),
}


class Sentences:
    """Of one report."""

    def __init__(self, of: Examiner, text: str) -> None:
        self.of, self.tables, self.findings = of, of.tables, of.findings
        self.text = re.sub(r"\s+", " ", text)

    def all(self) -> Iterator[Opinion]:
        """Every opinion."""
        yield from self._counts()
        yield from self._reasons()
        yield from self._service()
        yield from self._groups()
        yield from self._waits()
        for pattern, names in _OF_FAULTS.items():
            rows = [[row[name] for name in names] for row in self.findings["faults"]]
            known = [row for row in rows if None not in row]
            yield from self._each(
                pattern, lambda told, known=known: any(_all_near(told, row) for row in known)
            )

    def _each(self, pattern: str, right: Callable[[list[float]], bool]) -> Iterator[Opinion]:
        for found in re.finditer(pattern, self.text):
            told = [_number(text) for text in found.groups()]
            yield Opinion(
                f"sentence: {found[0]}", TRUE if right(told) else FALSE, "other numbers are claimed"
            )

    # Messages.

    def _counts(self) -> Iterator[Opinion]:
        outcomes = Counter(s["outcome"] for s in self.tables.rows("sends"))
        both = [float(outcomes.total()), float(outcomes["acked"])]
        yield from self._each(rf"{_N} sent, {_N} acknowledged", lambda told: told == both)
        yield from self._each(rf"{_N} messages sent, {_N} acknowledged", lambda told: told == both)
        unknown = [float(outcomes["unknown"])]
        yield from self._each(
            rf"sent, [\d,]+ acknowledged, (?:[\d,]+ failed, )?{_N} of unknown outcome",
            lambda told: told == unknown,
        )
        lost = self._count("lost")
        yield from self._each(
            rf"(?<!of )(?<![\d,]){_N} acknowledged messages? lost", lambda told: told == [lost]
        )
        if "no acknowledged message lost" in self.text:
            yield one_of("sentence: no acknowledged message lost", lost, {0})
        if "every acknowledged message is stored" in self.text:
            yield one_of("sentence: every acknowledged message is stored", lost, {0})
        faults = self.tables.rows("faults")
        bit = sum(bool(f["bit"]) for f in faults)
        took = [float(bit), float(len(faults))]
        yield from self._each(rf"{_N} of {_N} faults took effect", lambda told: told == took)

    def _count(self, name: str, group: str | None = None) -> int:
        rows = [a for a in self.findings["anomalies"] if (a["name"], a["group"]) == (name, group)]
        return sum(a["count"] for a in rows)

    def _reasons(self) -> Iterator[Opinion]:
        """What reasons say of an anomaly is together all there is of it."""
        told: Counter[tuple[str, str | None]] = Counter()
        for reason in self.findings["reasons"]:
            yield Opinion(f"in the report: {reason}", TRUE if reason in self.text else FALSE, "it is not")
            of = re.match(r"Group (\S+): ", reason)
            for pattern, name in _REASONS.items():
                if found := re.search(rf"\b{_N} {pattern}", reason):
                    told[name, of and of[1]] += int(_number(found[1]))
        for (name, group), number in told.items():
            yield one_of(f"reasons: {name} of {group}", number, {self._count(name, group)})

    # Silences.

    def _service(self) -> Iterator[Opinion]:
        readings = self.of.silences.readings(Scope())
        pattern = rf"Nothing at all was acknowledged for {_S} s \(from {_S} s on\)"
        yield from self._each(pattern, lambda told: any(self._one(told, some) for some in readings))
        pattern = rf"acknowledged for {_S} s in {_N} standstills; the longest: {_S} s \(from {_S} s on\)"
        yield from self._each(pattern, lambda told: any(self._several(told, some) for some in readings))
        if "No standstill: the service never went a second" in self.text:
            yield Opinion("sentence: no standstill", TRUE if [] in readings else FALSE, f"{readings[0]}")
        quick = self.of.groups.producers_quick(None)
        shares = [100 * one.within_1s / one.messages for one in quick if one.messages]
        pattern = rf"{_S} % of all messages were acknowledged within 1 s"
        yield from self._each(pattern, lambda told: any(abs(told[0] - one) <= 0.051 for one in shares))

    def _since(self, at: int) -> float:
        return float(at - self.findings["run"]["started_ns"]) / SECOND

    def _is(self, told: list[float], one: Silence) -> bool:
        """Whether a length and a beginning are those of a silence."""
        length = (one.end - one.begin) / SECOND
        return abs(told[0] - length) <= 0.051 and abs(told[1] - self._since(one.begin)) <= 0.051

    def _one(self, told: list[float], some: list[Silence]) -> bool:
        return len(some) == 1 and self._is(told, some[0])

    def _several(self, told: list[float], some: list[Silence]) -> bool:
        total = sum(one.end - one.begin for one in some) / SECOND
        longest = max(some, key=lambda one: one.end - one.begin, default=None)
        whole = abs(told[0] - total) <= 0.051 and told[1] == len(some)
        return whole and longest is not None and self._is(told[2:], longest)

    def _groups(self) -> Iterator[Opinion]:
        pattern = rf"Group (\S+) was delivered nothing new of (\S+)/(\d+) for {_S} s \(from {_S} s on\)"
        for found in re.finditer(pattern, self.text):
            place = self.tables.place_of(None, found[2], int(found[3]))
            told = [_number(found[4]), _number(found[5])]
            every = [one for some in self.of.silences.readings(Scope(found[1], place)) for one in some]
            known = any(self._is(told, one) for one in every)
            yield Opinion(f"sentence: {found[0]}", TRUE if known else FALSE, f"{every[:4]}")

    def _waits(self) -> Iterator[Opinion]:
        """Each story is that of a claim: the same conditions, in order, as long; a moment may be left out."""
        stories = []
        for claim in self.findings["claims"]:
            every = [(w["condition"], (w["to_ns"] - w["from_ns"]) / SECOND) for w in claim["waited_for"]]
            stories += [every, [(name, length) for name, length in every if length > 0.1]]
        wait = rf"{_S} s (?:until|for) [\w\- ]+"
        for found in re.finditer(rf"waited ({wait}(?:, then {wait})*)", self.text):
            told = [self._wait(one) for one in found[1].split(", then ")]
            if any(condition is None for condition, _ in told):
                continue  # a condition that has no words here
            known = any(
                len(told) == len(story)
                and all(c == d and abs(s - t) <= 0.051 for (c, s), (d, t) in zip(told, story, strict=True))
                for story in stories
            )
            yield Opinion(f"sentence: {found[0]}", TRUE if known else FALSE, "no claim has this story")

    def _wait(self, text: str) -> tuple[str | None, float]:
        length, _, rest = text.partition(" s ")
        known = (name for words, name in _CONDITIONS.items() if rest.startswith(words))
        return next(known, None), _number(length)


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _all_near(told: list[float], right: list[float]) -> bool:
    """Whether all are the same, as far as whole numbers tell, or three digits below a hundred."""
    pairs = zip(told, right, strict=True)
    return all(abs(one - other) <= (0.501 if one >= 100 else 0.0051 * one + 0.001) for one, other in pairs)
