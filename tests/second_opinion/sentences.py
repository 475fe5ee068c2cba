"""Numbers in the sentences of a report, held against the raw tables and the claims behind them.

`text`: the report as a terminal shows it, or the words of the page.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING

from second_opinion.answers import FALSE, TRUE, Opinion, one_of
from second_opinion.raw import MS, SECOND, Row
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
    r"until the heal(?: of \d+-[\w-]+(?: and \d+-[\w-]+)*)?": "heal",
    r"until a (?:broker started|link worked)": "heal",
    r"until a leader was elected": "election",
    r"until the in-sync replicas changed": "isr",
    r"until min\.insync\.replicas changed": "setting",
    r"until the group had an owner for it": "rebalance",
    r"until old records had been read again": "reread",
    r"until an open transaction was ended": "transaction",
    r"for client and brokers": "client",
    r"for something that is not known": "unknown",
}
_RECORD = r"(?: \((?:[^()]|\([^()]*\))*\))?"
# A length, its unit, the condition (none: of other words), and whether another wait follows.
_WAIT = re.compile(rf"{_S} (s|ms) ({'|'.join(_CONDITIONS)})?{_RECORD}(, then )?")
# What the lines of a fault say, and the fields that their numbers are. On a page no space is between cells.
_OF_FAULTS = {
    rf"leader elected after ?{_S} ms": ("election_ms",),
    rf"first acknowledgement by a new leader after ?{_S} ms": ("first_ack_after_ms",),
    rf"first delivery of a new leader's record after ?{_S} ms": ("first_delivery_after_ms",),
    rf"longest silence after it ?{_S} ms": ("unavailable_ms",),
    rf"full again, after the heal ?{_S} ms": ("isr_restored_ms",),
    rf"backlog of \S+ drained after ?{_S} ms": ("backlog_drained_ms",),
    rf"affected ?{_N} of {_N} messages attempted": ("affected", "sent_in_window"),
    rf"loss window ?{_S} ms, {_N} attempts? in it": ("loss_window_ms", "sent_in_loss_window"),
}


class Sentences:
    """Of one report."""

    def __init__(self, of: Examiner, text: str) -> None:
        self.of, self.tables, self.findings = of, of.tables, of.findings
        self.text = re.sub(r"\s+", " ", text)
        self.matched: Counter[str] = Counter()  # how often each pattern was found

    def all(self) -> Iterator[Opinion]:
        """Every opinion."""
        yield from self._counts()
        yield from self._reasons()
        yield from self._service()
        yield from self._groups()
        yield from self._waits()
        yield from self._faults()
        yield from self._plan()
        yield from self._mirrors()

    def _plan(self) -> Iterator[Opinion]:
        """When each step began, how long it took, and what came of it."""
        for row in self.tables.rows("plan"):
            pattern = rf"{re.escape(row['step'])} ?{_S} s ?(?:{_S} s|-) ?{row['outcome']}"
            took = None if row["ended_ns"] is None else (row["ended_ns"] - row["started_ns"]) / SECOND
            right = [self._since(row["started_ns"]), took]
            told = [[text and _number(text) for text in found.groups()] for found in self._found(pattern)]
            known = [
                all(
                    a == b or (None not in (a, b) and abs(a - b) <= 0.051)
                    for a, b in zip(one, right, strict=True)
                )
                for one in told
            ]
            words = f"sentence: the plan's step {row['step']}"
            yield Opinion(words, TRUE if known and all(known) else FALSE, f"{told}; recomputed: {right}")

    def _mirrors(self) -> Iterator[Opinion]:
        """What is said below the table of mirrors; its figures are examined as claims (copies.py)."""
        for row in self.findings.get("mirrors") or []:
            name, end = re.escape(row["mirror"]), row["ended_ns"]
            causes = ", ".join(f"{n:,} {cause}" for cause, n in row["causes"].items())
            how = "killed" if row["ended"] == "fault" else "stopped"
            told = (
                ("unmirrored by", f"unmirrored by cause: {causes}", row["causes"]),
                ("was (?:killed|stopped) at", f"was {how} at {_clock(end or 0)}", end),
                ("was restarted", f"was restarted {row['restarts']:,} time", row["restarts"]),
                (r"appended [\d,]+ record", f"appended {row['merged']:,} record", row["merged"]),
            )
            for start, text, known in told:
                said = self._found(rf"{name} (?={start})")
                whole = self._found(rf"{name} {re.escape(text)}") if known else []
                right = len(whole) == len(said) and bool(said) == bool(known)
                yield Opinion(f"sentence: {row['mirror']} {text}", TRUE if right else FALSE, f"{known}")

    def _faults(self) -> Iterator[Opinion]:
        """Numbers in the lines below the name of a fault are its own."""
        rows = self.findings["faults"]
        begins = [(self.text.find(f"{row['id']}: {row['fault']}"), row) for row in rows]
        for pattern, names in _OF_FAULTS.items():
            for found in self._found(pattern):
                _, row = max((one for one in begins if one[0] < found.start()), key=lambda one: one[0])
                right = [row[name] for name in names]
                near = None not in right and _all_near([_number(text) for text in found.groups()], right)
                words = f"sentence of {row['id']}: {found[0]}"
                yield Opinion(words, TRUE if near else FALSE, f"claimed: {right}")

    def _found(self, pattern: str) -> list[re.Match[str]]:
        found = list(re.finditer(pattern, self.text))
        self.matched[pattern] += len(found)
        return found

    def _each(self, pattern: str, right: Callable[[list[float]], bool]) -> Iterator[Opinion]:
        for found in self._found(pattern):
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
        if self._found("no acknowledged message lost"):
            yield one_of("sentence: no acknowledged message lost", lost, {0})
        if self._found("every acknowledged message is stored"):
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
        if self._found("No standstill: the service never went a second"):
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
        for found in self._found(pattern):
            place = self.tables.place_of(None, found[2], int(found[3]))
            told = [_number(found[4]), _number(found[5])]
            every = [one for some in self.of.silences.readings(Scope(found[1], place)) for one in some]
            known = any(self._is(told, one) for one in every)
            yield Opinion(f"sentence: {found[0]}", TRUE if known else FALSE, f"{every[:4]}")

    def _waits(self) -> Iterator[Opinion]:
        """Each story is that of a claim: the same conditions, in order, as long, and a heal that is named is
        that of its own faults; moments may be left out, and neighbors of one condition be one.
        """
        stories = [list(_noticeable(claim["waited_for"])) for claim in self.findings["claims"]]
        for found in self._found(rf"waited (?={_S} (?:s|ms) )"):
            told, end = self._story(found.end())
            known = any(
                len(told) == len(story)
                and all(
                    c == d and abs(s - t) <= near and named <= {frozenset(), of}
                    for (c, s, near, named), (d, t, of) in zip(told, story, strict=True)
                )
                for story in stories
            )
            words = f"sentence: {self.text[found.start() : end]}"
            yield Opinion(words, TRUE if known else FALSE, "no claim has this story")

    def _story(self, begin: int) -> tuple[list[tuple[str | None, float, float, set[frozenset[str]]]], int]:
        """The waits of a story (condition, seconds, how near these are, and the faults that are named), and
        where its text ends.
        """
        told: list[tuple[str | None, float, float, set[frozenset[str]]]] = []
        while found := _WAIT.match(self.text, begin):
            names = (name for words, name in _CONDITIONS.items() if re.fullmatch(words, found[3] or ""))
            unit = 1.0 if found[2] == "s" else 1e-3
            named = {frozenset(re.findall(r"\d+-[\w-]+", found[3] or ""))}
            told.append((next(names, None), _number(found[1]) * unit, 0.051 if unit == 1 else 0.00051, named))
            begin = found.end()
            if found[4] is None:
                break
        return told, begin


def _clock(at: int) -> str:
    return datetime.fromtimestamp(at // MS / 1_000, UTC).strftime("%H:%M:%S.%f")[:-3]


def _noticeable(waits: list[Row]) -> Iterator[tuple[str, float, frozenset[str]]]:
    """(condition, seconds, faults), without those under 50 ms, unless there are no others; neighbors of one
    condition as one.
    """
    every = [(w["condition"], (w["to_ns"] - w["from_ns"]) / SECOND, w["faults"]) for w in waits]
    longer = [one for one in every if one[1] >= 0.05] or every
    for condition, group in groupby(longer, key=lambda one: one[0]):
        same = [*group]
        faults = frozenset(fault for *_, some in same for fault in some)
        yield condition, sum(length for _, length, _ in same), faults


def _number(text: str) -> float:
    return float(text.replace(",", ""))


def _all_near(told: list[float], right: list[float]) -> bool:
    """Whether all are the same, as far as whole numbers tell, or three digits below a hundred."""
    pairs = zip(told, right, strict=True)
    return all(abs(one - other) <= (0.501 if one >= 100 else 0.0051 * one + 0.001) for one, other in pairs)
