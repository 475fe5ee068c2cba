"""The availability section: standstills, what ended them, and the share of messages acknowledged in time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from kaput.core import plural
from kaput.evidence.findings_claims import EndedBy, Wait, needs_heal
from kaput.evidence.findings_service import Availability, NotableEvent, Standstill
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
_HEADER = ["from (s)", "seconds", Term("waited for", "ended_by"), "likeliest cause"]
_CONDITIONS: dict[EndedBy, str] = {
    "heal": "the heal",
    "election": "the election of a leader",
    "isr": "a change of the in-sync replicas",
    "rebalance": "an owner in the group",
    "client": "the client",
    "unknown": "something that is not recorded",
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
    """`33.9 s (from 8.0 s on): it waited ...`."""
    begin = run.seconds(one.from_ns)
    since = "" if begin is None else f" (from {begin:,.1f} s on)"
    return f"{one.length_ms / 1e3:,.1f} s{since}: {waited(one.waited_for, one.ended_by)}"


def waited(waits: Sequence[Wait], by: EndedBy | None) -> str:
    """What a silence waited for, as a clause: `it waited 6.5 s for the election of a leader, then 1.7 s for
    the client`.
    """
    if by is None:
        return "it lasted until the load ended"
    if not waits:
        return "what it waited for is not known"
    parts = [f"{wait.seconds:,.1f} s for {_CONDITIONS[wait.condition]}" for wait in waits]
    longer = "; a longer fault means a longer outage" if needs_heal(waits) else ""
    return f"it waited {', then '.join(parts)}{longer}"


def waits_in_a_cell(waits: Sequence[Wait], by: EndedBy | None) -> str:
    """The same for a table: `election 6.5 s, client 1.7 s`."""
    if by is None:
        return "until the end of the load"
    return ", ".join(f"{wait.condition} {wait.seconds:,.1f} s" for wait in waits) or "not known"


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
    return Section(Term("Availability", "availability"), blocks, key="availability")


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
    yield waits_in_a_cell(one.waited_for, one.ended_by)
    yield Cell(one.cause or "not known", stories=list(_stories(run, one.happened[:_MOST_EVENTS])))


def _stories(run: JudgedRun, happened: Iterable[NotableEvent]) -> Iterator[str]:
    for one in happened:
        seconds = run.seconds(one.at_ns)
        yield one.what if seconds is None else f"at {seconds:,.1f} s: {one.what}"
