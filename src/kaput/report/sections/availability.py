"""The availability section: standstills, what ended them, and the share of messages acknowledged in time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kaput.core import plural
from kaput.evidence.findings_service import Availability, EndedBy, NotableEvent, Standstill
from kaput.report.document import Block, Cell, Paragraph, Section, Table, Term, limited
from kaput.report.formats import NOTHING, number, percent
from kaput.report.sections.judged_run import JudgedRun

_ROWS = 12
_MOST_EVENTS = 8  # shown for one standstill
_MEANINGS = (
    "A standstill is a second or more without any acknowledgement (or first delivery) while messages were "
    "waiting, measured from the previous one. Seconds: the sum of all standstills. Within the timeout: "
    "before the producer's delivery timeout."
)
_HEADER = ["from (s)", "seconds", Term("ended by", "ended_by"), "likeliest cause"]
ENDED_BY: dict[EndedBy, str] = {
    "heal": "ended only when the fault was healed; a longer fault means a longer outage",
    "election": "ended by the election of a new leader",
    "isr": "ended by a change of the in-sync replicas, which acks=all waits for",
    "rebalance": "ended by a rebalance of the group",
    "client": "the cluster was ready earlier: the client came back late",
    "unknown": "it is not known what ended it",
}


def outages(run: JudgedRun) -> list[str]:
    """Sentences for the head of the report: on all partitions together, on the partition that waited longest,
    and on suspect clients.
    """
    return [*_service(run), *_partition(run), *(suspect.story for suspect in run.findings.suspects)]


def _service(run: JudgedRun) -> Iterator[str]:
    service = next((one for one in run.findings.availability if _of_service(one)), None)
    if service is None or not service.messages:
        return
    found = [one for one in run.findings.standstills if _of_service(one)]
    share = f"{percent(service.within_1s_share)} of all messages were acknowledged within 1 s."
    if not found:
        yield f"No standstill: the service never went a second without an acknowledgement. {share}"
        return
    longest = max(found, key=lambda one: one.length_ms)
    total = f"{service.standstill_s:,.1f} s in {plural(service.standstills, 'standstill')}; the longest: "
    several = total if service.standstills > 1 else ""
    yield f"Nothing at all was acknowledged for {several}{_length_and_end(run, longest)}. {share}"


def _partition(run: JudgedRun) -> Iterator[str]:
    found = [one for one in run.findings.standstills if one.group is None]
    single = [one for one in found if one.partition is not None]
    longest = max(single, key=lambda one: one.length_ms, default=None)
    of_service = {(one.from_ns, one.to_ns) for one in found if _of_service(one)}
    if longest is not None and (longest.from_ns, longest.to_ns) not in of_service:
        length = _length_and_end(run, longest)
        yield f"{longest.topic}/{longest.partition} had no acknowledgement for {length}."


def _length_and_end(run: JudgedRun, one: Standstill) -> str:
    """`33.9 s (from 8.0 s on): ended only when ...`."""
    begin = run.seconds(one.from_ns)
    since = "" if begin is None else f" (from {begin:,.1f} s on)"
    return f"{one.length_ms / 1e3:,.1f} s{since}: {ended(one.ended_by)}"


def ended(by: EndedBy | None) -> str:
    """What ended a standstill, as a clause."""
    return "it lasted until the load ended" if by is None else ENDED_BY[by]


def _shown(one: Standstill | Availability) -> bool:
    return one.group is None or one.partition is None


def _of_service(one: Standstill | Availability) -> bool:
    """Whether it is about the acknowledgements of all partitions together."""
    return one.group is None and one.partition is None


def section(run: JudgedRun) -> Section | None:
    """Shares, then standstills of all partitions together, of single partitions, and of groups. A group's
    single partitions are only in findings.json: they mostly repeat the standstills of acknowledgements.
    """
    shares = [one for one in run.findings.availability if _shown(one)]
    if not shares:
        return None
    found = [one for one in run.findings.standstills if _shown(one)]
    whole = [one for one in found if _of_service(one)]
    others = sorted((one for one in found if not _of_service(one)), key=lambda one: -one.length_ms)
    blocks: list[Block] = [_shares(shares), Paragraph(_MEANINGS, "fine")]
    if whole:
        rows = [[*_row(run, one)] for one in whole]
        blocks.append(limited(Table(_HEADER, rows, "rrll", caption="Nothing at all was acknowledged"), _ROWS))
    if others:
        rows = [[_scope(one), *_row(run, one)] for one in others]
        caption = (Term("Standstills", "standstill"), " of partitions and groups, the longest first")
        table = Table(["scope", *_HEADER], rows, "lrrll", caption=caption, stories=False)
        blocks.append(limited(table, _ROWS))
    if found:
        blocks.append(Paragraph(_ends(found), "fine"))
    return Section(Term("Availability", "availability"), blocks, key="availability")


def _ends(found: Iterable[Standstill]) -> str:
    """Explains the values of `ended by` in the tables: `election: ended by the election of a new leader.`"""
    used = {one.ended_by for one in found}
    return " ".join(f"{by}: {text}." for by, text in ENDED_BY.items() if by in used)


def _shares(every: Sequence[Availability]) -> Table:
    header = [
        "scope",
        "messages",
        "within 1 s",
        "within the timeout",
        Term("standstills", "standstill"),
        "seconds",
        "longest (s)",
    ]
    rows = [
        [
            _scope(one),
            f"{one.messages:,}",
            percent(one.within_1s_share),
            percent(one.within_timeout_share),
            f"{one.standstills:,}",
            number(one.standstill_s),
            number(one.longest_standstill_ms / 1e3),
        ]
        for one in sorted(every, key=lambda one: one.partition is not None)  # all partitions together first
    ]
    return limited(Table(header, rows), _ROWS)


def _scope(one: Standstill | Availability) -> str:
    where = "all partitions" if one.partition is None else f"{one.topic}/{one.partition}"
    return f"acknowledged, {where}" if one.group is None else f"delivered to {one.group}, {where}"


def _row(run: JudgedRun, one: Standstill) -> Iterator[str | Cell]:
    begin = run.seconds(one.from_ns)
    yield NOTHING if begin is None else f"{begin:,.1f}"
    yield f"{one.length_ms / 1e3:,.1f}"
    yield one.ended_by or "end of the load"
    yield Cell(one.cause or NOTHING, stories=list(_stories(run, one.happened[:_MOST_EVENTS])))


def _stories(run: JudgedRun, happened: Iterable[NotableEvent]) -> Iterator[str]:
    for one in happened:
        seconds = run.seconds(one.at_ns)
        yield one.what if seconds is None else f"at {seconds:,.1f} s: {one.what}"
