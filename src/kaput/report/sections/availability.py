"""The availability section: standstills, what ended them, and the share of messages acknowledged in time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from kaput.core import SECOND, clock, duration, plural
from kaput.evidence.findings import Findings
from kaput.evidence.findings_claims import Availability, EndedBy, Standstill, Wait, needs_heal, only_flaps
from kaput.report.document import (
    NOTHING,
    Block,
    Cell,
    Paragraph,
    Section,
    Table,
    Term,
    limited,
    milliseconds,
    number,
    percent,
    table_of,
)
from kaput.report.sections import JudgedRun
from kaput.report.sections.clients import refusals
from kaput.scenario.vocabulary import NOOP

_ROWS = 12
_MOST_EVENTS = 8  # shown for one standstill
_MEANINGS = (
    "A standstill is a second or more without any acknowledgement (or first delivery) while messages were "
    "waiting, measured from the previous one, or from the first message that waited if that is later. "
    "Seconds: the sum of all standstills. Within the timeout: before the producer's delivery timeout."
)
_HEADER = ["from (s)", "seconds", Term("waited for"), "likeliest cause"]
_RECORDS: tuple[EndedBy, ...] = ("transaction", "unknown")  # what the record shows of these is told with them
_MUCH_OF_THE_TIME = 0.05
_LONG_S = 5
ENOUGH = 0.9  # of the load that was asked for
_FEW = 10  # messages: at low rates a period has one more, or one fewer
_CONDITIONS: dict[EndedBy, str] = {
    "heal": "until the heal",
    "election": "until a leader was elected",
    "isr": "until the in-sync replicas changed",
    "setting": "until min.insync.replicas changed",
    "rebalance": "until the group had an owner for it",
    "reread": "until old records had been read again",
    "transaction": "until an open transaction was ended",
    "client": "for client and brokers",
    "unknown": "for something that is not known",
}


def outages(run: JudgedRun) -> list[str]:
    """Sentences for the head of the report: on a load that fell short, on what was refused, on all partitions
    together, on the partition and the group that waited longest, on clients that a plan moved, and on suspect
    clients.
    """
    suspects = (suspect.story for suspect in run.findings.suspects)
    return [
        *load_warning(run.findings),
        *refusals(run.findings),
        *_service(run),
        *_partition(run),
        *_groups(run),
        *_moved(run),
        *suspects,
    ]


def load_warning(findings: Findings) -> Iterator[str]:
    """A sentence if less than 90 % of the load was sent or acknowledged before the first fault (or in all),
    and not only a few messages are missing; else, if it slumped for longer than it was silent.
    """
    hit = any(fault.effective_ns and fault.fault != NOOP for fault in findings.faults)
    before = " before the first fault" if hit else ""
    for claim in findings.claims:
        if claim.kind == "load":
            asked, sent, reached = (claim.figures[f"{what}_per_s"] for what in ("asked", "sent", "reached"))
            most = max(_FEW if reached else 1, claim.figures.get("burst", 0))
            few = most * SECOND / max(1, (claim.to_ns or SECOND) - (claim.from_ns or 0))
            if asked - sent > max(few, asked * (1 - ENOUGH)):
                share = f"{number(sent)} of {number(asked)} messages a second ({percent(sent / asked)})"
                yield f"The load fell short: {share} were sent, {number(reached)} acknowledged{before}."
                return
            if asked - reached > max(few, asked * (1 - ENOUGH)):
                share = f"{number(reached)} of {number(asked)} messages a second ({percent(reached / asked)})"
                yield f"Acknowledgements fell behind the load{before}: {share}."
                return
    service = next((one for one in findings.availability if _of_service(one)), None)
    silent_s = service.standstill_s + 2 * service.standstills if service is not None else 0.0
    for slump in findings.rates.slumps:
        # Around each silence, whole seconds may be partly silent. At low rates, most have no message.
        if slump.what == "acked" and slump.below_per_s > 1 and slump.total_s - silent_s >= _LONG_S:
            yield (
                f"In each of {slump.total_s:,} seconds, fewer than {number(slump.below_per_s)} messages were "
                "acknowledged (80 % of the load)."
            )


def _groups(run: JudgedRun) -> Iterator[str]:
    """A sentence on the longest standstill of a group, if acknowledgements had none as long."""
    found = [one for one in run.findings.standstills if one.partition is None]
    groups = [one for one in found if one.group is not None]
    longest = max(groups, key=lambda one: one.length_ms, default=None)
    acked_ms = max((one.length_ms for one in found if one.group is None), default=0.0)
    if longest is not None and longest.length_ms >= acked_ms + 1000:
        yield f"Group {longest.group} was delivered nothing new for {_length_and_end(run, longest)}."
    parts = [one for one in run.findings.standstills if one.group is not None and one.partition is not None]
    part = max(parts, key=lambda one: one.length_ms, default=None)
    known_ms = max([acked_ms, *(one.length_ms for one in run.findings.standstills if one.group is None)])
    known_ms = max(known_ms, longest.length_ms if longest is not None else 0.0)
    if part is not None and part.length_ms >= known_ms + 1000:
        where = f"{part.topic}/{part.partition}"
        yield f"Group {part.group} was delivered nothing new of {where} for {_length_and_end(run, part)}."


def _moved(run: JudgedRun) -> Iterator[str]:
    """A sentence on how long clients that a plan moved were without a cluster, also if nothing was sent."""
    plan = run.findings.plan
    if plan is None:
        return
    waits = [("writes", plan.rto_writes), *((one.group, one.rto) for one in plan.groups)]
    known = [f"{who} {wait.seconds:,.1f} s" for who, wait in waits if wait is not None]
    if known:
        yield f"RTO from {plan.source} to {plan.target}: {', '.join(known)}."


def _service(run: JudgedRun) -> Iterator[str]:
    service = next((one for one in run.findings.availability if _of_service(one)), None)
    if service is None or not service.messages:
        if not timed(run):
            yield "When messages were acknowledged is not known."
        return
    found = [one for one in run.findings.standstills if _of_service(one)]
    share = _share(run, service)
    if not found:
        waiting = "without an acknowledgement while messages were waiting"
        yield f"No standstill: the service never went a second {waiting}. {share}"
        return
    longest = max(found, key=lambda one: one.length_ms)
    total = f"{service.standstill_s:,.1f} s in {plural(service.standstills, 'standstill')}; the longest: "
    several = total if service.standstills > 1 else ""
    nothing = "Nothing at all" if timed(run) else "Nothing with a known time"
    yield f"{nothing} was acknowledged for {several}{_length_and_end(run, longest)}. {share}"


def _share(run: JudgedRun, service: Availability) -> str:
    """The share acknowledged within 1 s, and how many acknowledgements were worth nothing."""
    which = "all messages" if timed(run) else f"the {service.messages:,} messages with a known time"
    share = f"{percent(service.within_1s_share)} of {which} were acknowledged within 1 s"
    lost, acked = run.findings.lost, run.findings.totals.acked
    if lost:
        return f"{share}, but {percent(lost / acked)} of the acknowledged ones ({lost:,}) are lost."
    silent, late = _share_of_time(service, 0), 1 - (service.within_1s_share or 0)
    # Who waits sends little, so few messages are late: fewer than half of those of a constant rate.
    if silent >= _MUCH_OF_THE_TIME and late < _share_of_time(service, 1) / 2:
        return f"{share}, but little was sent meanwhile: {percent(silent)} of the time was silent."
    around = {one.when: one.ack.p99 for one in run.findings.latency_ms.around_faults}
    p99, before = around.get("during"), around.get("before")
    if p99 is not None and p99 >= max(1000, before or 0) and not service.standstills:
        return f"{share}; during the faults their 99th percentile was {p99 / 1e3:,.1f} s."
    return f"{share}."


def timed(run: JudgedRun) -> bool:
    """Whether each acknowledgement has a time."""
    return all(claim.kind != "times-unknown" for claim in run.findings.claims)


def _share_of_time(service: Availability, without_s: float) -> float:
    """The share of the time of the load in standstills, without the last `without_s` of each."""
    still_s = service.standstill_s - without_s * service.standstills
    return still_s / service.load_s if service.load_s else 0.0


def _partition(run: JudgedRun) -> Iterator[str]:
    found = [one for one in run.findings.standstills if one.group is None]
    single = [one for one in found if one.partition is not None]
    longest = max(single, key=lambda one: one.length_ms, default=None)
    of_service = {(one.from_ns, one.to_ns) for one in found if _of_service(one)}
    if longest is not None and (longest.from_ns, longest.to_ns) not in of_service:
        length = _length_and_end(run, longest)
        known = "" if timed(run) else " with a known time"
        yield f"{longest.topic}/{longest.partition} had no acknowledgement{known} for {length}."


def _length_and_end(run: JudgedRun, one: Standstill) -> str:
    """`33.9 s (from 8.0 s on), the longest of 2: it waited ...`."""
    begin = run.seconds(one.from_ns)
    since = f"{clock(one.from_ns)} UTC" if begin is None else f"{begin:,.1f} s"
    story = waited(one.waited_for, one.ended_by, _why(run, one), named=len(run.findings.faults) > 1)
    named = one.ended_by != "unknown" or one.cause is None or one.cause in story
    cause = "" if named else f"; {one.cause}"
    work = _work(run, one)
    same = [each for each in run.findings.standstills if _of_what(each) == _of_what(one)]
    # The service's are added up.
    counted = len(same) > 1 and not _of_service(one) and not run.findings.standstills_left_out
    of = f", the longest of {len(same):,}" if counted else ""
    return f"{one.length_ms / 1e3:,.1f} s (from {since} on){of}: {story}{cause}{work and f'; {work}'}"


def _of_what(one: Standstill) -> tuple[str | None, str | None, int | None]:
    return one.group, one.topic, one.partition


def _work(run: JudgedRun, one: Standstill) -> str:
    """Of a group that works on what it polled, where nothing else tells what it waited for: that it does."""
    spec = run.scenario.group(one.group) if run.scenario is not None and one.group is not None else None
    if spec is None or not spec.processing or one.ended_by not in ("unknown", "client") or one.cause:
        return ""
    return f"its members work {milliseconds(spec.processing)} on each record before they poll again"


def _why(run: JudgedRun, one: Standstill) -> str:
    """Why it is not known what it waited for."""
    subject = (one.group, one.topic, one.partition, one.from_ns)
    silences = (claim for claim in run.findings.claims if claim.kind == "silence" and not claim.decidable)
    return next((c.why for c in silences if (c.group, c.topic, c.partition, c.from_ns) == subject), "")


def waited(
    waits: Sequence[Wait], by: EndedBy | None, why: str = "", after: str | None = None, *, named: bool = False
) -> str:
    """As a clause: `it waited 6.5 s until the heal, then 1.7 s for client and brokers`. `after`: it is about
    this fault; heals of others are named. `named`: each is.
    """
    if by is None:
        return "no acknowledgement ended it"
    if not waits:
        return "what it waited for is not known" + (f" ({why})" if why else "")
    healed = _healed(waits)
    named = named or (after is not None and bool(healed) and set(healed) != {after})
    parts: list[str] = []
    shown: set[str] = set()
    for condition, length, same in reversed(noticeable(waits)):
        words = _until_healed(same, named) if condition == "heal" else _CONDITIONS[condition]
        records = [each.record for each in same if condition in _RECORDS and each.record not in ("", *shown)]
        shown.update(records)
        record = f" ({'; '.join(dict.fromkeys(records))})" if records else ""
        parts.insert(0, f"{length} {words}{record}")
    # A broker is fenced some time after it ended, whenever another one is back.
    last = max((n for n, wait in enumerate(waits) if wait.condition == "heal"), default=0)
    fenced = any(wait.fenced is not None for wait in waits[last:])
    decides = after in (None, *healed) and needs_heal(waits) and not fenced
    longer = "; a longer fault means a longer outage" if decides else ""
    return f"it waited {', then '.join(parts)}{longer}"


def _healed(waits: Iterable[Wait]) -> list[str]:
    return [fault for wait in waits if wait.condition == "heal" for fault in wait.faults]


def _until_healed(waits: Sequence[Wait], named: bool) -> str:
    healed = _healed(waits)
    if not healed:
        return "until a broker started"
    if only_flaps(healed):
        return "until a link worked"
    return f"until the heal of {' and '.join(dict.fromkeys(healed))}" if named else _CONDITIONS["heal"]


def waits_in_a_cell(waits: Sequence[Wait], by: EndedBy | None) -> str:
    """The same for a table: `election 6.5 s, client 1.7 s`."""
    if by is None:
        return "not acknowledged"
    return ", ".join(f"{condition} {length}" for condition, length, _ in noticeable(waits)) or "not known"


def noticeable(waits: Sequence[Wait]) -> list[tuple[EndedBy, str, list[Wait]]]:
    """(condition, length, waits), without those under 50 ms; neighbors of one condition are one."""
    seen = [one for one in waits if one.seconds >= 0.05] or waits
    by_condition = [(condition, [*same]) for condition, same in groupby(seen, key=lambda one: one.condition)]
    return [(condition, duration(sum(one.seconds for one in same)), same) for condition, same in by_condition]


def _of_service(one: Standstill | Availability) -> bool:
    """Whether it is about the acknowledgements of all partitions together."""
    return one.group is None and one.partition is None


def section(run: JudgedRun) -> Section | None:
    """Shares, then standstills of all partitions together, of single partitions, and of groups. The shares
    of a group's single partitions are only in findings.json.
    """
    # Acknowledgements without any time have no share, and standstills of theirs are not known.
    shares = [
        one
        for one in run.findings.availability
        if (one.partition is None if one.group else one.messages or timed(run))
    ]
    if not shares:
        return None
    found = run.findings.standstills
    whole = [one for one in found if _of_service(one)]
    others = sorted(_without_repetition(found), key=lambda one: -one.length_ms)
    blocks: list[Block] = [_shares(shares), Paragraph(_MEANINGS, "fine")]
    if whole:
        rows = [[*_row(run, one)] for one in whole]
        blocks.append(limited(Table(_HEADER, rows, "rrll", caption="Nothing at all was acknowledged"), _ROWS))
    if others:
        rows = [[_scope(one), *_row(run, one)] for one in others]
        caption = (Term("Standstills", "standstill"), " of partitions and groups, the longest first")
        table = Table(["scope", *_HEADER], rows, "lrrll", caption=caption, stories=False)
        every = sum(one.standstills for one in run.findings.availability if not _of_service(one))
        every -= len(found) - len(whole) - len(others)  # without repetition
        shown = limited(table, _ROWS)
        blocks.append(replace(shown, left_out=max(shown.left_out, every - len(shown.rows))))
    return Section(Term("Availability", "availability"), blocks, key="availability")


def _without_repetition(found: Sequence[Standstill]) -> list[Standstill]:
    """Standstills of partitions and groups, except those of one partition in which its whole group stood
    still.
    """
    groups = {(one.group, one.from_ns, one.to_ns) for one in found if one.partition is None}
    return [
        one
        for one in found
        if not _of_service(one)
        and (one.group is None or one.partition is None or (one.group, one.from_ns, one.to_ns) not in groups)
    ]


def _shares(every: Sequence[Availability]) -> Table:
    columns: dict[str, Callable[[Availability], str | float]] = {
        "scope": _scope,
        "messages": lambda one: one.messages,
        "within 1 s": lambda one: percent(one.within_1s_share),
        "within the timeout": lambda one: percent(one.within_timeout_share),
        Term("standstills", "standstill"): lambda one: one.standstills,
        "seconds": lambda one: one.standstill_s,
        "longest (s)": lambda one: one.longest_standstill_ms / 1e3,
    }
    all_together_first = sorted(every, key=lambda one: one.partition is not None)
    return limited(table_of(all_together_first, columns), _ROWS)


def _scope(one: Standstill | Availability) -> str:
    where = "all partitions" if one.partition is None else f"{one.topic}/{one.partition}"
    return f"acknowledged, {where}" if one.group is None else f"delivered to {one.group}, {where}"


def _row(run: JudgedRun, one: Standstill) -> Iterator[str | Cell]:
    begin = run.seconds(one.from_ns)
    yield NOTHING if begin is None else f"{begin:,.1f}"
    yield f"{one.length_ms / 1e3:,.1f}"
    yield waits_in_a_cell(one.waited_for, one.ended_by)
    known = [text for text in (one.cause, _work(run, one)) if text]
    yield Cell("; ".join(known) or "not known", stories=list(_stories(run, one)))


def _stories(run: JudgedRun, one: Standstill) -> Iterator[str]:
    """The records that met what it waited for; where that is not known, what happened meanwhile."""
    records = [(wait.to_ns, wait.record) for wait in one.waited_for if wait.record]
    for at_ns, what in records or [(each.at_ns, each.what) for each in one.happened[:_MOST_EVENTS]]:
        seconds = run.seconds(at_ns)
        yield what if seconds is None else f"at {seconds:,.1f} s: {what}"
