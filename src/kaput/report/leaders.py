"""Changes of leader as sentences: who took over, and what the deposed leader still acknowledged."""

from __future__ import annotations

from collections.abc import Iterator

from kaput.evidence.findings import Findings, LeaderChange
from kaput.evidence.findings_parts import Learned
from kaput.report.layout import milliseconds, plural

LIBRDKAFKA = "librdkafka"  # kaput's own client, of which nothing is said where there is no other
_SHOWN = 5  # changes that lost nothing; those that did are all told


def leader_sentences(findings: Findings) -> list[str]:
    """One line a change of leader, those with losses first; what is too much to tell is counted."""
    costly = [change for change in findings.leader_changes if change.deposed_acks]
    calm = [change for change in findings.leader_changes if not change.deposed_acks]
    told = [", ".join(_sentence(change)) + "." for change in (*costly, *calm[:_SHOWN])]
    more = len(calm) - _SHOWN
    return [*told, f"{plural(more, 'more change')} of leader without a loss."] if more > 0 else told


def _sentence(change: LeaderChange) -> Iterator[str]:
    restarted = change.leader == change.old_leader
    how = "came back and led again" if restarted else f"took over from broker {change.old_leader}"
    yield f"{change.topic}/{change.partition}: broker {change.leader} {how} (epoch {change.epoch})"
    if change.first_ack_ns is not None:
        after = (change.first_ack_ns - change.elected_ns) / 1e6
        yield f"its first acknowledgement {milliseconds(max(0.0, after))} after the election"
    if {known.client for known in change.learned} - {LIBRDKAFKA}:
        yield f"known to {' and to '.join(map(_learned, change.learned))}"
    if not change.deposed_acks:
        yield "the old leader acknowledged nothing that was overwritten"
        return
    if restarted:
        yield f"without {change.deposed_acks:,} that it had acknowledged before, {change.lost:,} of them lost"
        return
    yield (
        f"the old leader had acknowledged {change.deposed_acks:,} that were overwritten, "
        f"{change.deposed_acks_after_election:,} of them after the election"
    )
    if change.two_leaders_ms:
        yield f"the last {milliseconds(change.two_leaders_ms)} after it: for that long there were two leaders"
    if change.overlap_ms:
        yield f"both acknowledged for {milliseconds(change.overlap_ms)}"
    if change.offsets_used_twice:
        yield f"{plural(change.offsets_used_twice, 'offset')} used twice"
    if change.lost_after_heal:
        yield f"{change.lost_after_heal:,} of the {change.lost:,} lost were acknowledged after the heal"
    yield from _proof(change)


def _learned(known: Learned) -> str:
    """`java's producer 23,268 ms after it`: by its first acknowledgement."""
    if known.producers == 1:
        return f"{known.client}'s producer {milliseconds(known.first_ms)} after it"
    to = "" if known.first_ms == known.last_ms else f" to {milliseconds(known.last_ms)}"
    return f"{known.producers} producers of {known.client} {milliseconds(known.first_ms)}{to} after it"


def _proof(change: LeaderChange) -> Iterator[str]:
    """Which of the lost messages were seen on whose disk, and which were not."""
    unseen = change.lost_unseen
    if unseen is None:
        return
    for broker, seen in sorted(change.lost_seen.items()):
        count = f"all {seen:,}" if seen == change.lost else f"{seen:,} of the {change.lost:,}"
        yield f"{count} lost messages were seen on broker {broker}'s disk before it truncated them"
    if unseen:
        last = milliseconds(change.lost_unseen_last_ms)
        yield f"{plural(unseen, 'lost message')}, acknowledged in the last {last}, on no broker's disk"
