"""What in a chunk wants a closer look: kept row by row, for the driver to look at (closer/).

Everything that is in order leaves nothing here.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from kaput.analysis.dense import settling
from kaput.analysis.dense.context import ACKED, OUTCOME, Context
from kaput.analysis.dense.ledger_file import unread
from kaput.analysis.dense.log import SOURCE as LOG
from kaput.analysis.dense.messages import Chunk, Flags
from kaput.analysis.dense.numbers import NULL, Ints
from kaput.analysis.dense.sends import SOURCE as SENDS
from kaput.analysis.dense.settling import Facts, Offsets
from kaput.analysis.dense.split import grouped
from kaput.analysis.dense.summary import SHOWN, Edge, Order, Summary

NOWHERE: Ints = np.empty(0, np.int64)
Copies = tuple[Ints, Ints, Ints]  # positions, offset, epoch


def gather(laid: Chunk, chunk: int, context: Context, summary: Summary) -> None:
    """Adds the chunk's suspects to the piles."""
    lost = (laid.outcome == ACKED) & (laid.stored == 0)
    if lost.any():
        lost &= ~unread(laid.place, laid.topic, laid.stored, context)
    table, islands, elsewhere = settling.facts(
        laid.stream,
        len(laid.streams),
        laid.outcome,
        laid.done_ns,
        laid.place,
        laid.stored,
        laid.stored_place,
        laid.epoch,
        lost,
    )
    facts = [settling.Facts(*row) for row in table.tolist()]
    _under(laid, facts, summary)
    _first_acks(laid, context, summary)
    _astray(laid, facts, lost, islands, chunk, summary)
    _claims(laid, summary)
    _order(laid, elsewhere, chunk, summary)
    _examples(laid, summary)
    summary.piles.settle()


def _under(laid: Chunk, facts: Sequence[Facts], summary: Summary) -> None:
    """The first acknowledgement of a message that is stored, in each place and epoch."""
    for number, told in enumerate(facts):
        place = laid.streams[number][1]
        if told.acks and not told.epochs:
            _first_under(summary, (laid.producer, place, told.epoch), told.done_ns)
        elif told.acks:
            known = (laid.outcome == ACKED) & (laid.epoch != NULL) & (laid.done_ns != NULL)
            rows = np.flatnonzero(known & (laid.stream == number))
            for (epoch,), here in grouped(laid.epoch[rows]):
                _first_under(summary, (laid.producer, place, epoch), int(laid.done_ns[rows[here]].min()))


def _first_under(summary: Summary, key: tuple[int, int, int], first: int) -> None:
    summary.under[key] = min(summary.under.get(key, first), first)


def _first_acks(laid: Chunk, context: Context, summary: Summary) -> None:
    """The first acknowledgement after each fault, in each of the ways to tell who gave it."""
    for number, reached in enumerate(context.reached):
        after = (laid.done_ns >= reached.effective_ns) & (laid.outcome == ACKED)
        after &= laid.place == reached.place
        if not after.any():
            continue
        ways = {"any": after}
        if reached.election is not None:
            epoch, at_ns = reached.election
            ways["time"] = after & (laid.done_ns >= at_ns)
            ways["epoch"] = after & (laid.epoch >= epoch) if epoch is not None else np.zeros_like(after)
        for way, rows in ways.items():
            if rows.any():
                first = int(laid.done_ns[rows].min())
                summary.first_acks[number, way] = min(summary.first_acks.get((number, way), first), first)


def _astray(
    laid: Chunk, facts: Sequence[Facts], lost: Flags, islands: Ints, chunk: int, summary: Summary
) -> None:
    """Acknowledgements that the log does not bear out, and the islands of the lost ones."""
    for (topic, place), told in zip(laid.streams, facts, strict=True):
        edge = Edge(chunk, bool(told.first_lost), bool(told.last_lost), told.islands)
        summary.edges[laid.producer, topic, place].append(edge)
    rows = np.flatnonzero((laid.claimed & ~laid.borne_out) | lost)
    if len(rows):
        summary.piles["astray"].put(
            producer=laid.producer,
            seq=laid.seq[rows],
            topic=laid.topic[rows],
            place=laid.place[rows],
            offset=laid.offset[rows],
            attempt_ns=laid.attempt_ns[rows],
            done_ns=laid.done_ns[rows],
            lost=lost[rows],
            chunk=chunk,
            island=islands[rows],
        )


def _claims(laid: Chunk, summary: Summary) -> None:
    """Everything that is said of where an unsettled message stands."""
    if not laid.unsettled.any():
        return
    acks = np.flatnonzero(laid.unsettled & laid.claimed)
    summary.piles["claims"].put(
        source=SENDS,
        producer=laid.producer,
        seq=laid.seq[acks],
        place=laid.place[acks],
        offset=laid.offset[acks],
    )
    for source, claims in [(LOG, laid.copies), *laid.handed.items()]:
        if claims:
            at, place, offset = claims[:3]
            rows = np.flatnonzero(laid.unsettled[at])
            summary.piles["claims"].put(
                source=source,
                producer=laid.producer,
                seq=laid.seq[at[rows]],
                place=place[rows],
                offset=offset[rows],
            )


def _order(laid: Chunk, elsewhere: bool, chunk: int, summary: Summary) -> None:
    """The first copies of each place: whether they stand in the log as they were sent, and which do not."""
    if laid.more_copies:
        for place, copies in _first_copies(laid):
            offset = copies[1]
            inverted = bool((offset[1:] < offset[:-1]).any())
            found = Order(chunk, int(offset.min()), int(offset.max()), inverted)
            _ordered(laid, place, found, copies, summary)
        return
    number, places = laid.stream, [place for _, place in laid.streams]
    if elsewhere or len(set(places)) < len(places):
        held = laid.ran & (laid.stored > 0)
        number, first = settling.streams(np.zeros(len(held), np.int64), laid.stored_place, held)
        places = laid.stored_place[first].tolist()
    table = settling.offsets(number, len(places), laid.stored, laid.first_offset).tolist()
    for this, (place, row) in enumerate(zip(places, table, strict=True)):
        told = Offsets(*row)
        if told.held:
            slots = np.flatnonzero((number == this) & (laid.stored > 0)) if told.inverted else NOWHERE
            copies = slots, laid.first_offset[slots], laid.epoch[slots]
            found = Order(chunk, told.low, told.high, bool(told.inverted))
            _ordered(laid, place, found, copies, summary)


def _ordered(laid: Chunk, place: int, found: Order, copies: Copies, summary: Summary) -> None:
    summary.order[laid.producer, place].append(found)
    if found.inverted:
        _disordered(laid, place, copies, summary)


def _first_copies(laid: Chunk) -> Iterator[tuple[int, Copies]]:
    """By place the first copy there of each message, in the order of seq."""
    at: Ints = np.flatnonzero((laid.stored > 0) & laid.ran)
    copies = [at, laid.stored_place[at], laid.first_offset[at], laid.epoch[at]]
    if laid.more_copies:
        ran = laid.ran[laid.more_copies[0]]
        copies = [
            np.concatenate([mine, more[ran]]) for mine, more in zip(copies, laid.more_copies, strict=True)
        ]
        order = np.argsort(copies[0], kind="stable")
        copies = [column[order] for column in copies]
    for (there,), rows in grouped(copies[1]):
        yield there, (copies[0][rows], copies[2][rows], copies[3][rows])


def _disordered(laid: Chunk, place: int, copies: Copies, summary: Summary) -> None:
    """Messages behind a later one; the greatest such one is beside them. Rows are in the order of seq."""
    slots, offset, epoch = copies
    least_after = np.minimum.accumulate(offset[::-1])[::-1]
    behind = np.flatnonzero(offset[:-1] > least_after[1:])
    # From the left the least offset from there on never falls: the last one below is the greatest seq before.
    other = np.searchsorted(least_after, offset[behind], side="left") - 1
    rows = slots[behind]
    summary.piles["disordered"].put(
        producer=laid.producer,
        seq=laid.seq[rows],
        place=place,
        offset=offset[behind],
        other_seq=laid.seq[slots[other]],
        epoch=np.where(epoch[behind] >= 0, epoch[behind], NULL),
        other_epoch=np.where(epoch[other] >= 0, epoch[other], NULL),
        attempt_ns=laid.attempt_ns[rows],
        done_ns=laid.done_ns[rows],
    )


def _examples(laid: Chunk, summary: Summary) -> None:
    """The chunk's first few of what the fates alone show."""
    found = laid.ran & (laid.stored > 0)
    if laid.stored.max(initial=0) > 1:
        _show(laid, summary, ("duplicate", NULL, NULL), found & (laid.stored > 1))
    if laid.outcome.max(initial=ACKED) > ACKED:
        _show(laid, summary, ("recovered", NULL, NULL), found & (laid.outcome == OUTCOME["unknown"]))
        _show(laid, summary, ("ghost", NULL, NULL), found & (laid.outcome == OUTCOME["failed"]))
    for group, times in enumerate(laid.delivered):
        unseen = found & (times == 0)
        if unseen.any():
            for topic in np.unique(laid.topic[unseen]).tolist():
                _show(laid, summary, ("unseen", group, topic), unseen & (laid.topic == topic))
    if laid.copies and not laid.ran.all():
        at, place, offset, _ = laid.copies
        strange = np.flatnonzero(~laid.ran[at])
        strange = strange[np.lexsort((offset[strange], place[strange]))][:SHOWN]
        columns = place, offset, np.full(len(place), laid.producer), laid.seq[at]
        rows = zip(*(column[strange].tolist() for column in columns), strict=True)
        summary.show(("phantom", NULL, NULL), rows)


def _show(laid: Chunk, summary: Summary, kind: tuple[str, int, int], mask: Flags) -> None:
    rows = np.flatnonzero(mask)[:SHOWN]
    if len(rows) == 0:
        return
    words = [laid.words[text] if text >= 0 else None for text in laid.error[rows].tolist()]
    columns = laid.seq, laid.place, laid.first_offset, laid.attempt_ns, laid.topic, laid.stored
    found = zip(*(column[rows].tolist() for column in columns), words, strict=True)
    summary.show(kind, ((laid.producer, *row) for row in found))
